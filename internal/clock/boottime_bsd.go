//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootCount is CLOCK_MONOTONIC, which these systems count from the start of the
// machine and alike in every process. Only darwin goes on counting in sleep.
func bootCount() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("read CLOCK_MONOTONIC: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
