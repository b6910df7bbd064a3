package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
)

// report writes how it came out to the descriptor that was given for it.
func (v *runFlags) report(o supervise.Outcome) {
	if v.statusFD >= 0 {
		_, _ = o.WriteTo(os.NewFile(uintptr(v.statusFD), "status")) // its reader is gone
	}
}

// signalOf reads TERM, SIGTERM or 15; 0 is none.
func signalOf(s string) syscall.Signal {
	if n, err := strconv.Atoi(s); err == nil {
		if n > 0 && n < 65 {
			return syscall.Signal(n)
		}
		return 0
	}
	return unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG"))
}
