package tuning

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// TimerSlack is how late the kernel may end a short sleep. The runtime's monitor thread
// wakes every 20 µs while anything runs, which a lock service does not need. At the
// default slack of 50 µs that thread, and the wake-ups that it causes, take a quarter
// of a busy server's processor time. No timer of ours is finer.
const TimerSlack = 1_000_000 // nanoseconds

// SetTimerSlack makes this process exec itself with TimerSlack, once. The runtime
// starts the thread that matters before any of our code runs, and changing another
// thread's slack needs privileges. An exec keeps the slack and the process id. If it
// fails, or the operator has set PAWL_TIMER_SLACK=off, everything works at a higher
// cost.
func SetTimerSlack() {
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
