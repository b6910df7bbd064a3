package clock

import "time"

// System is the machine's clock.
func System() Clock { return system{} }

type system struct{}

func (system) Now() Reading { return reading() }

func (system) Wall() time.Time { return time.Now() }

func (system) NewTimer() Timer { return newGoTimer() }

// NewAlarm falls back on a timer that does not count suspend when the process
// has no descriptor left: a receiver that is woken late still reads the clock.
func (system) NewAlarm() Timer {
	t, err := NewBootTimer()
	if err != nil {
		return newGoTimer()
	}
	return t
}
