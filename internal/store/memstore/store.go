package memstore

import (
	"log/slog"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// Options of a Store. Only Clock is needed.
type Options struct {
	Clock clock.Clock
	// ActiveTTL: how long a standby waits for a sign of life; 0: 3 s.
	ActiveTTL time.Duration
	// Sole says that no other server uses the disk. The store then writes no sign of
	// life, runs nothing in the background, and takes over its own last tenure at once.
	Sole bool
	// Logger; nil: none.
	Logger *slog.Logger
}

// Store is one server's way to a Disk. The methods of the Link do harm to it.
type Store struct {
	*kvlog.Store
	*faulty.Link
}

// Store returns another server's way to the disk. Close it when it is not Sole.
func (d *Disk) Store(o Options) *Store {
	d.mu.Lock()
	journal := d.journal
	d.mu.Unlock()
	link := faulty.NewLink(d, o.Clock, journal)
	return &Store{Link: link, Store: kvlog.New(link, kvlog.Options{
		Clock: o.Clock, ActiveTTL: o.ActiveTTL, Sole: o.Sole, Logger: o.Logger,
	})}
}

// Crash ends the server: nothing of it that has not landed ever does, and it
// gives no sign of life any more.
func (s *Store) Crash() {
	s.Link.Crash()
	s.Store.Close()
}

// Record starts to keep every write that stores made from now on send, so that
// it can be made to land again.
func (d *Disk) Record() *faulty.Journal {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.journal = &faulty.Journal{}
	return d.journal
}
