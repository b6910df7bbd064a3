package clock

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Boottime is the time since the machine started, suspend included
// (CLOCK_BOOTTIME). Every process of one machine reads the same count, so an
// instant on it can be handed from one to another; between machines it means
// nothing.
func Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("read CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// BootTimer fires at an instant of Boottime: after a suspend it fires at once
// where the instant lay within it, which Go's own timers do not. It is a Timer.
// Safe for use by several goroutines.
//
// It is a timerfd that Go's poller waits on, so an armed timer costs a
// descriptor and a parked goroutine, not a thread.
type BootTimer struct {
	c  chan struct{}
	f  *os.File
	mu sync.Mutex
	at time.Duration // 0 is not armed
}

// NewBootTimer returns a timer that is not armed. It fails when the process has
// no descriptor left. Stop frees it.
func NewBootTimer() (*BootTimer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	t := &BootTimer{c: make(chan struct{}, 1), f: os.NewFile(uintptr(fd), "timerfd")}
	go t.run()
	return t, nil
}

// C delivers at most one value for each Arm or Reset.
func (t *BootTimer) C() <-chan struct{} { return t.c }

// Arm sets the timer to the instant at of Boottime; a value not yet taken is
// dropped. An instant that has passed fires at once.
func (t *BootTimer) Arm(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Zero would disarm the descriptor, and marks a timer that is not armed.
	t.at = max(at, 1)
	select {
	case <-t.c:
	default:
	}
	t.set(unix.NsecToTimespec(int64(t.at)))
}

// Reset arms the timer d from now.
func (t *BootTimer) Reset(d time.Duration) { t.Arm(Boottime() + d) }

// Stop disarms the timer and frees what it holds. Not to be used again.
func (t *BootTimer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = 0
	t.f.Close()
}

func (t *BootTimer) set(at unix.Timespec) {
	raw, err := t.f.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) {
			err = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: at}, nil)
		})
	}
	if err != nil {
		panic("arm timerfd: " + err.Error())
	}
}

// run hands the descriptor's expiries on. An expiry read just before the timer
// was armed anew belongs to nobody: the instant tells.
func (t *BootTimer) run() {
	var count [8]byte
	for {
		if _, err := t.f.Read(count[:]); err != nil {
			return
		}
		t.mu.Lock()
		if t.at != 0 && Boottime() >= t.at {
			t.at = 0
			select {
			case t.c <- struct{}{}:
			default:
			}
		}
		t.mu.Unlock()
	}
}
