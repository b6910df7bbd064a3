package signals

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// defaultAction gives a signal its default action. The runtime keeps handlers for
// signals that nobody is notified of, and theirs for QUIT prints goroutines.
func defaultAction(sig syscall.Signal) {
	// A sigaction of zeros: no handler, no flags, an empty mask. The size of the set
	// is 16 on MIPS and 8 elsewhere; a wrong one is refused.
	var action [64]byte
	for _, size := range []uintptr{8, 16} {
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, size, 0, 0)
		if errno == 0 {
			return
		}
	}
}

// raise sends a signal to this thread, which it reaches before the call returns.
func raise(sig syscall.Signal) {
	runtime.LockOSThread()
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig) // the caller goes on if nothing comes of it
}
