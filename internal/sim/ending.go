package sim

import (
	"bytes"
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// audit looks, once clients begin nothing new, whether everybody is served and
// nothing is left behind.
func (w *World) audit() {
	w.referee.overdue()
	why := w.pendingWork()
	switch {
	case why == "":
		w.ended = true
		w.referee.compareAll()
	case w.now >= w.plan.End:
		w.fail("I10", "%v after the last request: %s", w.now-w.plan.Stop, why)
	default:
		w.at(w.now+250*time.Millisecond, w.audit)
	}
}

// pendingWork names what keeps the world from ending.
func (w *World) pendingWork() string {
	for _, c := range w.clients {
		if c.done < c.plan.Callers {
			for _, k := range c.callers {
				switch {
				case k.lease != nil:
					return fmt.Sprintf("%s is not done with token %d of %s", c.name, k.lease.token, k.lease.name)
				case k.request != nil:
					return fmt.Sprintf("%s waits for %s, asked at %v", c.name, k.request.name(), k.request.asked)
				}
			}
			return c.name + " is not done"
		}
	}
	for _, c := range w.callers {
		if !c.done {
			return c.name + " is not done"
		}
	}
	for _, q := range w.quiet {
		if q.waits() {
			return fmt.Sprintf("a request of %v for %v waits, and nobody else wants them", q.At, q.Names)
		}
	}
	l := w.referee.ledger
	if l.held > 0 {
		for _, n := range w.plan.names() {
			if all := l.holders[n]; len(all) > 0 {
				return fmt.Sprintf("token %d of %s is held, and nobody wants it (I8)", all[0].token, n)
			}
		}
	}
	s := w.active()
	if s == nil {
		return "no server is active"
	}
	if n := s.core.Table().Counts(); n.Waiters > 0 || n.Leases > 0 {
		return fmt.Sprintf("%s has %d waiters and %d leases, and nobody wants them (I8)", s.name, n.Waiters, n.Leases)
	}
	for _, c := range w.clients {
		if why := c.mistaken(); why != "" {
			return why
		}
	}
	if !s.core.Idle() {
		return s.name + " has not answered everything"
	}
	return ""
}

// active is the server whose tenure is in force, if it serves.
func (w *World) active() *server {
	for _, s := range w.servers {
		if s.serving && s.served == w.referee.current() {
			return s
		}
	}
	return nil
}

// compareAll holds the table of the active server, which has nothing under way, against
// the whole log, unless it has lost some of that and does not know it yet.
func (r *referee) compareAll() {
	if s := r.world.active(); s != nil && !s.served.misled {
		r.compare(s, len(r.log), "at the end")
	}
}

// compare rebuilds the table from the first batches of the log and holds a server's
// against it (I9), which began with a snapshot or has lived all along.
func (r *referee) compare(s *server, batches int, when string) {
	if r.world.failed != nil {
		return
	}
	rebuilt := locktable.New(bounds.DefaultLimits)
	for n, raw := range r.log[:batches] {
		b, _, err := store.OpenBatch(raw)
		for i := 0; err == nil && i < len(b.Events); i++ {
			err = rebuilt.Apply(b.Events[i])
		}
		if err != nil {
			r.world.fail("I9", "%s: replay stops at batch %d: %v", when, n+1, err)
			return
		}
	}
	rebuilt.FinishReplay()
	if a, b, same := equal(s.core.Table().Freeze(locktable.Now{}), rebuilt.Freeze(locktable.Now{})); !same {
		r.world.fail("I9", "%s: %s has %v, and the log gives %v", when, s.name, a, b)
	}
}

// equal compares frozen tables, leaving out what is forgotten with time.
func equal(a, b *locktable.Frozen) (x, y *recordpb.Event, same bool) {
	nextA, stopA := iter.Pull(a.Events())
	defer stopA()
	nextB, stopB := iter.Pull(b.Events())
	defer stopB()
	for {
		x, y := decided(nextA), decided(nextB)
		switch {
		case x == nil && y == nil:
			return nil, nil, true
		case x == nil || y == nil:
			return x, y, false
		}
		p, _ := proto.Marshal(x)
		q, _ := proto.Marshal(y)
		if !bytes.Equal(p, q) {
			return x, y, false
		}
	}
}

func decided(next func() (*recordpb.Event, bool)) *recordpb.Event {
	for {
		e, ok := next()
		if !ok || e.Kind != recordpb.Kind_KIND_OUTCOME {
			return e
		}
	}
}

// breakLease has an operator ask a name's holder to let go, or ends its
// lease at once.
func (w *World) breakLease(name string, force bool) {
	s, all := w.active(), w.referee.ledger.holders[name]
	if s == nil || len(all) == 0 {
		return
	}
	x := all[len(all)-1]
	w.after(&s.process, time.Millisecond, func() {
		if s.serving {
			if force {
				w.recorder.breaks(x)
			}
			s.add([]locktable.Command{locktable.Break{Ref: nobody{}, Name: name, Token: x.token, Reason: "drill", Now: force}}, nil)
		}
	})
}

// nobody asked and does not listen.
type nobody struct{}

func (nobody) receive(uint64, locktable.Answer) {}
