package pawl

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/session"
)

// Campaign waits until it leads. It is an Acquire whose lease others find with Observe,
// with value, of at most 64 KiB, as the leader's address for instance. Options that
// make the lease anything but exclusive are ErrInvalid.
//
// The lease is one term. It begins when Campaign returns, with a token above those of
// all terms before, and it ends when its Context does. A campaign that fails begins no
// term. Release resigns: the next candidate in the queue leads. A term that was
// resigned or lost does not come back: campaign again, or let Do run term after term.
//
// A candidate whose session ends while it waits goes on in a new session, at the end of
// the queue: it never leads under a session that is over.
//
// What it does not give: a leader that was paused takes itself for the leader until it
// reads the clock. Only guards that were claimed with its successor's fence stop it.
// And value cannot be changed during a term.
func (c *Client) Campaign(ctx context.Context, name string, value []byte, options ...AcquireOption) (*Lease, error) {
	all := append(append([]AcquireOption(nil), options...), Value(value),
		AcquireOption{func(s *acquireSettings) { s.leader = true }})
	return c.acquire(ctx, "campaign", name, false, all)
}

// Leader is a name's holder. The zero Leader means that there is none.
type Leader struct {
	// Token is the lease's; 0: nobody holds the name.
	Token guard.Token
	// Value is the lease's, Label what its holder calls itself.
	Value []byte
	Label string
}

// Observe reports a name's present holder, and then every change, until ctx ends or the
// loop is left:
//
//	for leader, err := range c.Observe(ctx, "scheduler") {
//		if err != nil {
//			return err
//		}
//		…
//	}
//
// The zero Leader means that the name is not held. Observe goes on over lost
// connections, restarts of the server and a new session of this client: it reports
// again only when the leader has changed. While no server can be reached it reports
// nothing.
//
// Only the latest state is reported: a slow receiver misses leaders in between, and no
// leader is reported twice in a row. Any number of observers of one name are one
// observation to the server; a client may have 1,000. For shared leases and slots the
// first holder is reported.
//
// When ctx ends, the loop ends without an error. Otherwise its last turn has one:
// ErrInvalid for an invalid name, ErrExhausted, ErrDenied, ErrStoreRolledBack or
// ErrClosed.
//
// What it does not give: a permission. When the report is read, another may lead. So
// that a former leader cannot act, send it the token, or guard the resource.
func (c *Client) Observe(ctx context.Context, name string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		fail := func(err error) { yield(Leader{}, fmt.Errorf("pawl: observe %.64q: %w", name, err)) }
		// A server would end the stream over a name that is none.
		if err := invalid(bounds.ValidName(name)); err != nil {
			fail(err)
			return
		}
		o := newObserver(name)
		if !c.submit(op{observe: o}) {
			fail(ErrClosed)
			return
		}
		defer c.submit(op{observe: o, abandon: true})
		told, last := false, guard.Token(0)
		for {
			select {
			case <-o.ready:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return
			}
			l, err := o.take()
			if err != nil {
				fail(err)
				return
			}
			if told && l.Token == last {
				continue
			}
			told, last = true, l.Token
			l.Value = bytes.Clone(l.Value)
			if !yield(l, nil) {
				return
			}
		}
	}
}

// observer is the place where the loop leaves the latest state for one reader.
type observer struct {
	name  string
	ready chan struct{}

	mu     sync.Mutex
	leader Leader
	err    error
}

func newObserver(name string) *observer {
	return &observer{name: name, ready: make(chan struct{}, 1)}
}

func (o *observer) set(l *session.Leader) {
	o.put(Leader{Token: l.Token, Value: l.Value, Label: l.Label}, nil)
}

// end is the last word.
func (o *observer) end(err error) { o.put(Leader{}, err) }

func (o *observer) put(l Leader, err error) {
	o.mu.Lock()
	o.leader, o.err = l, err
	o.mu.Unlock()
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

func (o *observer) take() (Leader, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.leader, o.err
}
