//go:build unix && !linux

package main

import (
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// defaultAction leaves the signal to the runtime, which dies of those that a
// terminal and a service manager send, but of QUIT.
func defaultAction(sig syscall.Signal) { signal.Reset(sig) }

func raise(sig syscall.Signal) {
	if sig == syscall.SIGQUIT || unix.Kill(unix.Getpid(), sig) != nil {
		return
	}
	late, cancel := boundedBy(time.Second)
	defer cancel()
	<-late.Done()
}
