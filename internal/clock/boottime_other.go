//go:build !linux

package clock

import (
	"sync"
	"time"
)

// Boottime is the time since the machine started, on a monotonic clock that may
// stand still while the machine is suspended. On the BSDs and darwin an instant
// on it can be handed to another process of the machine; on windows it counts
// from the start of this process.
func Boottime() time.Duration { return bootCount() }

// BootTimer fires at an instant of Boottime. It is a Timer. Safe for use by
// several goroutines.
type BootTimer struct {
	mu sync.Mutex
	g  *goTimer
}

// NewBootTimer returns a timer that is not armed. Stop frees it.
func NewBootTimer() (*BootTimer, error) { return &BootTimer{g: newGoTimer()}, nil }

// C delivers at most one value for each Arm or Reset.
func (t *BootTimer) C() <-chan struct{} { return t.g.C() }

// Arm sets the timer to the instant at of Boottime; a value not yet taken is
// dropped. An instant that has passed fires at once.
func (t *BootTimer) Arm(at time.Duration) { t.Reset(at - Boottime()) }

// Reset arms the timer d from now.
func (t *BootTimer) Reset(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.g.Reset(d)
}

// Stop disarms the timer and frees what it holds. Not to be used again.
func (t *BootTimer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.g.Stop()
}
