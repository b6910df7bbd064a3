//go:build !linux

package etcdtest

import "syscall"

func diesWithParent() *syscall.SysProcAttr { return nil }

func halts(int) {}
