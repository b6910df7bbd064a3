package etcdstore

import (
	"log/slog"
	"sync"
)

// ending says when and why a store cannot go on.
type ending struct {
	log *slog.Logger

	mu     sync.Mutex
	failed error
	done   chan struct{}
}

// Done is closed when the store cannot go on; the process is to end with Err.
func (e *ending) Done() <-chan struct{} { return e.done }

// Err says why Done was closed; nil before. errors.Is(err, store.ErrRolledBack)
// when what the server wrote would be found by nobody.
func (e *ending) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

// fail ends the store for good: nothing more is acknowledged.
func (e *ending) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed == nil {
		e.failed = err
		close(e.done)
		e.log.Error("the store cannot go on", "error", err)
	}
}
