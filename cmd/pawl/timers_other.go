//go:build !linux

package main

func setTimerSlack() {}
