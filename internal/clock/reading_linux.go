package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// reading reads CLOCK_BOOTTIME and CLOCK_MONOTONIC_RAW. Each is a system call
// on some machines: read once per turn, not per operation.
func reading() Reading {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts); err != nil {
		panic("read CLOCK_MONOTONIC_RAW: " + err.Error())
	}
	return Reading{Boot: Boottime(), Raw: time.Duration(ts.Nano())}
}
