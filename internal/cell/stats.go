package cell

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

// Stats counts what the cell did since it was made. Answers are counted when
// they leave, so everything here is durable.
type Stats struct {
	Granted, Released, Renewed, Refused atomic.Uint64
	// Checked are the leases that were asked about and held, Left the sessions that
	// were closed as asked.
	Checked, Left atomic.Uint64
	// Sessions that were opened, and streams told that theirs has ended.
	Opened, Closed atomic.Uint64
	// Rides of which clients told when their sessions returned, and how long those lasted
	// together, in nanoseconds.
	Rides, Ridden atomic.Uint64
	// Batches that landed, the events in them and their bytes.
	Batches, Events, Bytes atomic.Uint64
	Confirms               atomic.Uint64
	// Tenures that this server began, and snapshots it published.
	Tenures, Snapshots atomic.Uint64
	// Waits are the times that granted acquires stood in queues. Appends and
	// Confirmations are how long the store took, retries of an append included.
	Waits, Appends, Confirmations Histogram
}

// Bounds of a Histogram's buckets, each with what is equal; the last bucket has
// none.
var Bounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute,
}

// Histogram counts durations. It may be read while it counts.
type Histogram struct {
	buckets [len(Bounds) + 1]atomic.Uint64
	sum     atomic.Int64
}

// Read returns how many durations were counted, their sum, and for each of
// Bounds how many did not exceed it.
func (h *Histogram) Read() (n uint64, sum time.Duration, within [len(Bounds)]uint64) {
	for i := range h.buckets {
		n += h.buckets[i].Load()
		if i < len(within) {
			within[i] = n
		}
	}
	return n, time.Duration(h.sum.Load()), within
}

func (h *Histogram) add(d time.Duration) {
	i, _ := slices.BinarySearch(Bounds[:], d)
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// Stats returns the counters, which go on counting.
func (c *Cell) Stats() *Stats { return &c.stats }

func (s *Stats) count(a locktable.Answer) {
	switch a := a.(type) {
	case locktable.Granted:
		s.Granted.Add(1)
		s.Waits.add(a.Waited)
	case locktable.Done:
		s.done(a.Of).Add(1)
	case locktable.Renewed:
		s.Renewed.Add(1)
	case locktable.Refused:
		s.Refused.Add(1)
	case locktable.Attached:
		s.Opened.Add(1)
		s.Ridden.Add(uint64(a.Rode))
		if a.NewRide {
			s.Rides.Add(1)
		}
	case locktable.Opened:
		s.Opened.Add(1)
	case locktable.Closed:
		s.Closed.Add(1)
	}
}

func (s *Stats) done(of locktable.Asked) *atomic.Uint64 {
	switch of {
	case locktable.AskedCheck:
		return &s.Checked
	case locktable.AskedClose:
		return &s.Left
	}
	return &s.Released
}
