package cell

import (
	"sync/atomic"

	"github.com/pawlproject/pawl/internal/locktable"
)

// Stats counts what the cell did since it was made. Answers are counted when
// they leave, so everything here is durable.
type Stats struct {
	// Done counts releases, checks and closings.
	Granted, Done, Renewed, Refused atomic.Uint64
	// Sessions that were opened, and streams told that theirs has ended.
	Opened, Closed atomic.Uint64
	// Batches that landed, the events in them and their bytes.
	Batches, Events, Bytes atomic.Uint64
	Confirms               atomic.Uint64
	// Tenures that this server began, and snapshots it published.
	Tenures, Snapshots atomic.Uint64
}

// Stats returns the counters, which go on counting.
func (c *Cell) Stats() *Stats { return &c.stats }

func (s *Stats) count(a locktable.Answer) {
	switch a.(type) {
	case locktable.Granted:
		s.Granted.Add(1)
	case locktable.Done:
		s.Done.Add(1)
	case locktable.Renewed:
		s.Renewed.Add(1)
	case locktable.Refused:
		s.Refused.Add(1)
	case locktable.Attached, locktable.Opened:
		s.Opened.Add(1)
	case locktable.Closed:
		s.Closed.Add(1)
	}
}
