package linear

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/pawltest"
)

const (
	seats   = 3
	callers = 2
	cycles  = 10
	faults  = 14
	// waitMax is how long a caller waits in the queue at most.
	waitMax = 4 * time.Second
)

// locks are the names of a world; the last has slots.
var locks = []string{"a", "b", "slots"}

// numbers of slots, one for each world: few, for contention, and some around where
// the lock table changes its ways, and the most there may be.
var numbers = []int{2, 1, 2, 3, 2, 64, 1025, 10_000}

// fixture is one server and those who use it.
type fixture struct {
	// slots of the last name.
	slots int
	*history
	server *pawltest.Server
	seats  []*seat
	// clients that there have been.
	clients atomic.Int64
}

// seat is one process after another on one path to the server.
type seat struct {
	world *fixture
	path  *pawltest.Path
	ttl   time.Duration

	mu     sync.Mutex
	client *pawl.Client
	id     int
	// ids are all clients that sat here.
	ids []int
	// watch ends with the client's events.
	watch sync.WaitGroup
	// moving is full while a caller closes the client and begins another: not a
	// mutex, for which a bubble's time does not wait.
	moving chan struct{}
}

// play lives through the world of a seed, in a bubble.
func play(t *testing.T, seed uint64) []record {
	r := rand.New(rand.NewPCG(seed, 0))
	w := &fixture{history: &history{}, server: pawltest.New(t), slots: numbers[seed%uint64(len(numbers))]}
	var all sync.WaitGroup
	for range seats {
		s := &seat{
			world: w, path: w.server.NewPath(), moving: make(chan struct{}, 1),
			ttl: time.Second + time.Duration(r.IntN(3000))*time.Millisecond,
		}
		w.seats = append(w.seats, s)
	}
	for _, s := range w.seats {
		s.sit(t.Context(), t)
		for range callers {
			c := caller{seat: s, rng: rand.New(rand.NewPCG(r.Uint64(), 0)), t: t}
			all.Go(c.live)
		}
	}
	w.suffer(r)
	all.Wait()
	// All is well again: every name can be had by somebody new.
	s := &seat{world: w, path: w.server.NewPath(), moving: make(chan struct{}, 1), ttl: time.Second}
	s.sit(t.Context(), t)
	last := caller{seat: s, rng: r, t: t}
	for _, name := range locks {
		if l := last.acquire(name, time.Minute); l == nil {
			t.Errorf("seed %d: %s cannot be had at the end", seed, name)
		} else {
			last.release(l, time.Minute)
		}
	}
	w.seats = append(w.seats, s)
	for _, s := range w.seats {
		s.close()
	}
	return w.records
}

// sit begins a client. Without a server it tries until there is one.
func (s *seat) sit(ctx context.Context, t *testing.T) {
	for {
		c, err := pawl.Dial(s.path.Context(ctx), s.path.Servers(), pawl.Options{TTL: s.ttl})
		if err == nil {
			id := int(s.world.clients.Add(1))
			s.mu.Lock()
			s.client, s.id, s.ids = c, id, append(s.ids, id)
			s.mu.Unlock()
			s.watch.Go(func() {
				for e := range c.Events() {
					if e.Kind == pawl.Lost {
						s.world.moment(record{verb: verbLost, client: id})
					}
				}
			})
			return
		}
		if ctx.Err() != nil || !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("dial: %v", err)
			return
		}
	}
}

func (s *seat) now() (*pawl.Client, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client, s.id
}

// close closes the client that sits here.
func (s *seat) close() {
	c, id := s.now()
	r := record{verb: verbClose, client: id, call: s.world.begin()}
	if c.Close() == nil {
		r.outcome = done
	}
	s.world.end(r)
	s.watch.Wait()
}

// evict ends the sessions of all that sit here.
func (s *seat) evict() {
	s.mu.Lock()
	ids := s.ids
	s.mu.Unlock()
	for _, id := range ids {
		r := record{verb: verbEnd, client: id, call: s.world.begin()}
		s.world.end(r)
	}
	s.path.EndSessions()
}

// suffer does harm, and heals it.
func (w *fixture) suffer(r *rand.Rand) {
	for range faults {
		nap(r, 2500*time.Millisecond)
		s := w.seats[r.IntN(len(w.seats))]
		switch r.IntN(10) {
		case 0, 1:
			s.path.Cut()
		case 2, 3:
			s.path.DropAnswers()
		case 4:
			s.path.Break()
		case 5:
			s.evict()
		case 6:
			w.server.Restart()
		case 7:
			w.server.Crash()
			nap(r, 3*time.Second)
			w.server.Start()
		case 8:
			w.server.Pause()
			nap(r, 4*time.Second)
			w.server.Continue()
		default:
			for _, s := range w.seats {
				s.path.Heal()
			}
		}
	}
	for _, s := range w.seats {
		s.path.Heal()
	}
}

func nap(r *rand.Rand, most time.Duration) {
	time.Sleep(time.Duration(r.Int64N(int64(most)))) //tidy:bubble only called in a world's bubble
}

// caller asks, holds and lets go, over and over.
type caller struct {
	seat *seat
	rng  *rand.Rand
	t    *testing.T
}

// holding is a lease and who was granted it.
type holding struct {
	*pawl.Lease
	as record
}

func (c *caller) live() {
	for range cycles {
		nap(c.rng, 400*time.Millisecond)
		if c.rng.IntN(12) == 0 {
			c.move()
		}
		l := c.acquire(locks[c.rng.IntN(len(locks))], time.Duration(c.rng.Int64N(int64(waitMax))))
		if l == nil {
			continue
		}
		nap(c.rng, 700*time.Millisecond)
		for c.rng.IntN(3) == 0 {
			c.check(l)
		}
		if c.rng.IntN(10) == 0 {
			// Longer than a lost session lives.
			nap(c.rng, 2*c.seat.ttl)
		}
		c.release(l, 5*time.Second)
		if c.rng.IntN(8) == 0 {
			c.release(l, 5*time.Second)
		}
	}
}

// move closes the client and begins another.
func (c *caller) move() {
	s := c.seat
	s.moving <- struct{}{}
	defer func() { <-s.moving }()
	s.close()
	s.sit(c.t.Context(), c.t)
}

// acquire asks for a name in one way or another; nil: it was not granted.
func (c *caller) acquire(name string, wait time.Duration) *holding {
	client, id := c.seat.now()
	r := record{verb: verbAcquire, client: id, name: name}
	var options []pawl.AcquireOption
	switch {
	case name == "slots":
		r.mode = slotted
		r.slots = c.seat.world.slots
		options = append(options, pawl.Slots(r.slots))
	case c.rng.IntN(3) == 0:
		r.mode = shared
		options = append(options, pawl.Shared())
	}
	ask := client.Acquire
	if c.rng.IntN(3) == 0 && wait < waitMax {
		r.verb, ask = verbTry, client.TryAcquire
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if c.rng.IntN(4) == 0 && wait < waitMax {
		time.AfterFunc(wait/2, cancel)
	}
	r.call = c.seat.world.begin()
	l, err := ask(ctx, name, options...)
	var refused *pawl.HeldError
	switch {
	case err == nil:
		r.outcome, r.token, r.fence, r.slot = done, uint64(l.Token()), uint64(l.Fence().Token), l.Slot()
	case errors.As(err, &refused):
		r.outcome, r.token = held, uint64(refused.Token)
	case errors.Is(err, pawl.ErrConflict), errors.Is(err, pawl.ErrInvalid), errors.Is(err, pawl.ErrStoreRolledBack):
		c.t.Errorf("%v %s: %v", r.verb, name, err)
	}
	c.seat.world.end(r)
	if err != nil {
		return nil
	}
	context.AfterFunc(l.Context(), func() {
		if errors.Is(context.Cause(l.Context()), pawl.ErrLost) {
			passed := r
			passed.verb, passed.outcome = verbDeadline, unknown
			c.seat.world.moment(passed)
		}
	})
	return &holding{l, r}
}

func (c *caller) check(l *holding) {
	c.about(l, verbCheck, 3*time.Second, l.Check)
}

// release lets go; an error says nothing, so that it may be late.
func (c *caller) release(l *holding, patience time.Duration) {
	if c.rng.IntN(6) == 0 && patience < time.Minute {
		patience = time.Duration(c.rng.IntN(100)) * time.Millisecond
	}
	c.about(l, verbRelease, patience, l.Release)
}

func (c *caller) about(l *holding, v verb, patience time.Duration, do func(context.Context) error) {
	r := l.as
	r.verb, r.outcome = v, unknown
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.call = c.seat.world.begin()
	if do(ctx) == nil {
		r.outcome = done
	}
	c.seat.world.end(r)
}
