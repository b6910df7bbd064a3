// Package systemd tells the service manager that started a server how it is: ready, or
// stopping (see sd_notify(3)).
//
// It promises to return within a second although nobody reads. A state that could not
// be told is an error and no more: the server goes on.
package systemd
