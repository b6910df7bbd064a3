//go:build unix && !linux

package signals

import (
	"context"
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
	late, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	<-late.Done()
}
