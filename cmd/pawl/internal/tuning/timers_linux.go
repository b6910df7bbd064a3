package tuning

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// TimerSlack is how late the kernel may end a short sleep. The runtime's own
// watch wakes every 20 µs while anything runs, for what a lock service does not
// need; at the default of 50 µs that and the wake-ups that it causes are a
// quarter of a busy server's processor time. No timer of ours is finer.
const TimerSlack = 1_000_000 // nanoseconds

// CoarsenTimers has this process begin anew with timerSlack, once: the runtime
// starts the thread that matters before any code of ours, and nobody may change
// another thread's slack without privileges. An exec keeps it, and the process
// id. Where that fails, or the operator has PAWL_TIMER_SLACK=off, everything works as
// well, at a higher price.
func CoarsenTimers() {
	if os.Getenv("PAWL_TIMER_SLACK") == "off" {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || now >= TimerSlack {
		return
	}
	if unix.Prctl(unix.PR_SET_TIMERSLACK, TimerSlack, 0, 0, 0) != nil {
		return
	}
	if now, err = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || now < TimerSlack {
		return // it would not end
	}
	// What was asked of the first thread, such as a signal when the parent dies,
	// holds on after an exec by that thread only.
	self, err := os.Executable()
	if err != nil || unix.Gettid() != os.Getpid() {
		return
	}
	_ = syscall.Exec(self, os.Args, os.Environ()) // returns when it fails
}
