//go:build unix

package supervise

import (
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// Stops knows when this process last did not run for a while: it was stopped (SIGSTOP,
// Ctrl-Z), or the machine was suspended. Then renewals are missing although servers
// answer. A nil Stops knows of none.
//
// A goroutine looks at the clock at short intervals; a longer one is a stop. What asks
// for stops looks first, so that the order in which goroutines go on does not matter:
//
//  1. The process is stopped, and continued.
//  2. The client reports that half of its time has gone by without a renewal.
//  3. Whoever reports that asks Last. The goroutine has not run yet, and Last finds the
//     gap itself.
type Stops struct {
	least time.Duration
	stop  func()

	mu          sync.Mutex
	seen        time.Duration // the last look
	from, until time.Duration // the last stop
}

// stopsEvery is the longest interval between two looks.
const stopsEvery = time.Second

// WatchStops notes stops from now on that cost a client of this TTL a renewal, those of
// TTL/6 or longer. Stop ends that.
func WatchStops(ttl time.Duration) (*Stops, error) {
	timer, err := clock.NewBootTimer()
	if err != nil {
		return nil, err
	}
	over := make(chan struct{})
	s := newStops(ttl, clock.Boottime())
	s.stop = sync.OnceFunc(func() { close(over) })
	go func() {
		defer timer.Stop()
		for {
			timer.Reset(min(ttl/followShare, stopsEvery))
			select {
			case <-over:
				return
			case <-timer.C():
			}
			s.Last()
		}
	}()
	return s, nil
}

func newStops(ttl, now time.Duration) *Stops {
	return &Stops{least: ttl / renewalsPerTTL, seen: now}
}

// Last returns how long the last stop was, at most a second too long, and how long ago
// it ended; 0, 0 when there was none.
func (s *Stops) Last() (length, ago time.Duration) {
	if s == nil {
		return 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.look(clock.Boottime())
}

func (s *Stops) look(now time.Duration) (length, ago time.Duration) {
	if now-s.seen >= s.least {
		s.from, s.until = s.seen, now
	}
	s.seen = now
	if s.until == 0 {
		return 0, 0
	}
	return s.until - s.from, now - s.until
}

// Stop ends the watch. Twice is fine.
func (s *Stops) Stop() {
	if s != nil {
		s.stop()
	}
}
