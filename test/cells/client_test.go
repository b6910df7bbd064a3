package cells

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/trust"
)

var names = []string{"a", "b", "c"}

const clientTTL = 2 * time.Second

// single acquires, renews and releases by single calls until ctx ends.
func (w *cluster) single(ctx context.Context, who string) {
	for n := 0; pause(ctx, w.span(time.Millisecond, 500*time.Millisecond)); n++ {
		ctx := ctx
		r := cell.AcquireRequest{Names: []string{names[w.draw(len(names))]}, TTL: clientTTL, Wait: w.span(0, 8*time.Second)}
		if w.draw(3) == 0 {
			r.Wait = 0
		}
		tries := 1
		patience := 10 * time.Second
		if w.draw(2) == 0 {
			// Repeated under one id until it is answered.
			ctx, r.RequestID = cell.As(ctx, who), fmt.Sprintf("%s/%d", who, n)
			tries, patience = 8, w.span(10*time.Millisecond, 3*time.Second)
		}
		for range tries {
			s := w.active()
			if s == nil || ctx.Err() != nil {
				break
			}
			sent := w.clock.Now()
			call, done := context.WithTimeout(ctx, patience)
			l, err := s.Acquire(call, r)
			done()
			if err == nil {
				w.hold(ctx, who, r, l, sent.Add(trust.Span(l.Granted.Waited+l.Granted.TTL, trust.DriftPPM)).Boot)
				break
			}
			var no *cell.RefusedError
			if errors.As(err, &no) && no.Reason != locktable.Unavailable && no.Reason != locktable.Cancelled {
				break
			}
			pause(ctx, w.span(time.Millisecond, 400*time.Millisecond))
		}
	}
}

// hold renews a lease and acts under it for a while, then releases it or lets it
// expire.
func (w *cluster) hold(ctx context.Context, who string, r cell.AcquireRequest, l cell.Lease, until time.Duration) {
	name := r.Names[0]
	at := w.clock.Now()
	at.Boot, at.Raw = until, until
	token := l.Granted.Token
	w.granted(who, name, token, at)
	// Some renew often, some just in time, some never.
	times, gap := w.draw(12), clientTTL/3
	switch w.draw(3) {
	case 0:
		gap = clientTTL * 9 / 10
	case 1:
		times = w.draw(2)
	}
	for range times {
		if !pause(ctx, w.span(time.Millisecond, gap)) {
			break
		}
		w.use(name, token)
		s := w.active()
		if s == nil {
			continue
		}
		sent := w.clock.Now()
		if !before(sent, at) {
			break
		}
		call, done := context.WithTimeout(ctx, time.Second)
		ttl, err := w.again(call, s, r, l)
		done()
		var no *cell.RefusedError
		switch {
		case err == nil && before(w.clock.Now(), at):
			at = sent.Add(trust.Span(ttl, trust.DriftPPM))
			w.extended(name, token, at)
		case errors.As(err, &no) && no.Reason == locktable.Gone:
			// The server may know earlier than the client's own clock only when it
			// is right about the end of the lease.
			if before(w.clock.Now(), at) {
				w.t.Errorf("I5: %s under %d is gone and %s trusted it for %v more", name, token, who, at.Boot-w.clock.Now().Boot)
			}
			w.lost(name, token)
			return
		}
	}
	if w.draw(2) == 0 {
		w.lost(name, token)
		return
	}
	w.letGo(name, token)
	for range 3 {
		if s := w.active(); s != nil {
			call, done := context.WithTimeout(ctx, time.Second)
			err := s.Release(call, l.ID)
			done()
			if err == nil {
				w.mu.Lock()
				w.stats.releases++
				w.mu.Unlock()
				return
			}
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// again renews a lease: by its id, or by asking for it once more.
func (w *cluster) again(ctx context.Context, s *server, r cell.AcquireRequest, l cell.Lease) (time.Duration, error) {
	if r.RequestID == "" || w.draw(2) == 0 {
		again, err := s.RenewLease(ctx, l.ID, 0)
		return again.TTL, err
	}
	same, err := s.Acquire(ctx, r)
	if err == nil && (same.ID != l.ID || same.Granted.Token != l.Granted.Token) {
		w.t.Errorf("%s is another lease when it is asked for again: %d, and %d", r.RequestID, l.Granted.Token, same.Granted.Token)
	}
	return same.Granted.TTL, err
}

// lost: the client goes away without a word; its trust runs out by itself.
func (w *cluster) lost(string, guard.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.lost++
}

// inbox is a stream's receiver.
type inbox struct {
	mu    sync.Mutex
	items []item
	ready chan struct{}
}

type item struct {
	number uint64
	answer locktable.Answer
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (b *inbox) Receive(number uint64, a locktable.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = append(b.items, item{number, a})
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *inbox) take() []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.items
	b.items = nil
	return all
}

// streamer is a client on streams: one session, one request at a time.
type streamer struct {
	*cluster
	who string

	session    []byte
	generation uint64
	window     trust.Window
	numbers    uint64
	// asked is the request that waits, 0: none; held the lease.
	asked  uint64
	name   string
	ticket locktable.Place
	held   guard.Token
}

func (w *cluster) streamer(ctx context.Context, who string) {
	c := &streamer{cluster: w, who: who}
	for ctx.Err() == nil {
		if s := w.active(); s != nil {
			c.attach(ctx, s)
		}
		pause(ctx, w.span(time.Millisecond, 300*time.Millisecond))
	}
}

// forget gives up a session that is lost.
func (c *streamer) forget() {
	if c.held != 0 {
		c.lost(c.name, c.held)
	}
	*c = streamer{cluster: c.cluster, who: c.who}
}

// attach serves one stream to its end.
func (c *streamer) attach(ctx context.Context, s *server) {
	if c.session != nil && c.window.State(c.clock.Now()) == trust.Lost {
		c.forget()
	}
	c.generation++
	h := cell.Hello{Session: c.session, Generation: c.generation, TTL: clientTTL, Identity: c.who, Cell: s.Info().Cell}
	if c.held != 0 {
		h.Held = []uint64{uint64(c.held)}
	}
	if c.asked != 0 {
		h.Wanted = []uint64{c.asked}
	}
	c.window.Forget()
	greeting := c.window.Send(c.clock.Now())
	in := newInbox()
	st := s.Attach(context.Background(), h, in)
	defer st.Detach()
	timer := time.NewTimer(clientTTL / 6)
	defer timer.Stop()
	attached := false
	for life := c.draw(40); life > 0; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			life--
			timer.Reset(c.span(clientTTL/12, clientTTL/6))
			if c.window.State(c.clock.Now()) == trust.Lost && c.session != nil {
				return
			}
			if attached {
				c.speak(st)
			}
		case <-in.ready:
			for _, x := range in.take() {
				switch a := x.answer.(type) {
				case locktable.Attached:
					attached = true
					if c.session != nil && c.window.State(c.clock.Now()) == trust.Lost {
						return
					}
					c.session = st.Session()
					c.window.Ack(greeting, a.TTL)
					if len(a.Lost) > 0 {
						c.t.Errorf("I9: %s holds %s under %d and trusts it; the table does not know", c.who, c.name, c.held)
						c.held = 0
					}
					if c.asked != 0 {
						c.ask(st)
					}
					c.trusts()
				case locktable.Closed:
					if a.Reason == locktable.Gone {
						if c.held != 0 && c.window.State(c.clock.Now()) != trust.Lost {
							c.t.Errorf("I5: the session of %s is gone and it trusted %s for %v more", c.who, c.name, c.window.Remaining(c.clock.Now()))
						}
						c.forget()
					}
					return
				default:
					c.heard(x)
				}
			}
		}
	}
}

func (c *streamer) heard(x item) {
	now := c.clock.Now()
	lost := c.window.State(now) == trust.Lost
	switch a := x.answer.(type) {
	case locktable.Renewed:
		if !lost && c.window.Ack(a.Number, a.TTL) {
			c.trusts()
		}
	case locktable.Granted:
		if x.number == c.asked && !lost {
			c.held, c.asked = a.Token, 0
			c.granted(c.who, c.name, c.held, now.Add(c.window.Remaining(now)))
		}
	case locktable.Waiting:
		c.ticket = a.Place
	case locktable.Refused:
		if x.number == c.asked {
			if a.Reason == locktable.Gone || a.Reason == locktable.Conflict || a.Reason == locktable.Invalid {
				c.t.Errorf("%s #%d: %v", c.who, x.number, a)
			}
			c.asked = 0
		}
	}
}

func (c *streamer) trusts() {
	if now := c.clock.Now(); c.held != 0 {
		c.extended(c.name, c.held, now.Add(c.window.Remaining(now)))
	}
}

func (c *streamer) ask(st *cell.Stream) {
	st.Submit(cell.Message{Finished: c.asked, Acquires: []locktable.Acquire{{
		Number: c.asked, Names: []string{c.name}, Ticket: c.ticket,
	}}})
}

// speak renews, and goes on with what the client is about.
func (c *streamer) speak(st *cell.Stream) {
	m := cell.Message{Renewal: c.window.Send(c.clock.Now()), Finished: c.numbers + 1}
	if c.asked != 0 {
		m.Finished = c.asked
	}
	switch {
	case c.held != 0:
		c.use(c.name, c.held)
		if c.draw(6) == 0 {
			c.letGo(c.name, c.held)
			c.numbers++
			m.Releases = []locktable.Release{{Number: c.numbers, Token: c.held}}
			c.held = 0
		}
	case c.asked == 0:
		c.numbers++
		c.asked, c.name, c.ticket = c.numbers, names[c.draw(len(names))], locktable.Place{}
		m.Acquires = []locktable.Acquire{{Number: c.asked, Names: []string{c.name}}}
	case c.draw(20) == 0:
		m.Cancels = []locktable.Cancel{{Number: c.asked}}
		c.asked = 0
	}
	st.Submit(m)
}
