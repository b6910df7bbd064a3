package cell_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// storeDelay is how long the store takes for every write.
const storeDelay = 40 * time.Millisecond

// listener keeps the answers of a stream.
type listener struct {
	mu  sync.Mutex
	all map[uint64][]locktable.Answer
}

func (l *listener) Receive(number uint64, a locktable.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[number] = append(l.all[number], a)
}

// last is what a request was told last.
func (l *listener) last(number uint64) locktable.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.all[number]; len(a) > 0 {
		return a[len(a)-1]
	}
	return nil
}

// asked is a stream on a cell whose store takes its time.
type asked struct {
	*cell.Stream
	*listener
	clock clock.Clock
}

// slowAppends takes storeDelay for every append.
type slowAppends struct{ store.Store }

func (s slowAppends) Claim(ctx context.Context, self store.Node, nonce store.Nonce, first func(uint64, store.Nonce) []byte) (store.Tenure, error) {
	t, err := s.Store.Claim(ctx, self, nonce, first)
	return slowTenure{t}, err
}

type slowTenure struct{ store.Tenure }

func (t slowTenure) Append(ctx context.Context, n uint64, batch []byte) error {
	timer := clock.Bubble().NewTimer()
	defer timer.Stop()
	timer.Reset(storeDelay)
	<-timer.C()
	return t.Tenure.Append(ctx, n, batch)
}

func slowly(t *testing.T) *server {
	t.Helper()
	k := clock.Bubble()
	s := &server{store: memstore.NewDisk().Store(memstore.Options{Clock: k, Sole: true}), end: make(chan error, 1)}
	s.Cell = cell.New(cell.Options{Store: slowAppends{s.store}, Clock: k, Name: "test", ActiveTTL: activeTTL})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { s.end <- s.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-s.end; err != nil {
			t.Error(err)
		}
		s.store.Close()
	}
	s.up(t)
	return s
}

func (s *server) ask() *asked {
	a := &asked{listener: &listener{all: map[uint64][]locktable.Answer{}}, clock: clock.Bubble()}
	a.Stream = s.Attach(context.Background(), cell.Hello{Generation: 1, TTL: time.Minute}, a.listener)
	return a
}

// acquires asks for names, each traced.
func (a *asked) acquires(first uint64, try bool, names ...string) {
	m := cell.Message{Received: a.clock.Now()}
	for i, n := range names {
		number := first + uint64(i)
		m.Acquires = append(m.Acquires, locktable.Acquire{Number: number, Names: []string{n}, Try: try})
		m.Traced = append(m.Traced, number)
	}
	a.Submit(m)
}

// trace is what the answer to a request tells.
func (a *asked) trace(t *testing.T, number uint64) cell.Trace {
	t.Helper()
	got, ok := a.last(number).(cell.Traced)
	if !ok {
		t.Fatalf("request %d was told %#v; a lease with a trace was expected", number, a.last(number))
	}
	if _, ok := got.Answer.(locktable.Granted); !ok {
		t.Fatalf("a trace of %#v", got.Answer)
	}
	last := got.Trace.Received
	for _, at := range stations(got.Trace) {
		if at == (clock.Reading{}) || at.Raw < last.Raw {
			t.Fatalf("out of order: %+v", got.Trace)
		}
		last = at
	}
	return got.Trace
}

func stations(x cell.Trace) []clock.Reading {
	return []clock.Reading{x.Queued, x.Taken, x.Decided, x.Closed, x.Appending, x.Landed, x.Final}
}

func TestTraceOfAnAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowly(t)
		defer s.stop()
		a := s.ask()
		time.Sleep(time.Second)
		a.acquires(1, true, "n")
		time.Sleep(time.Second)
		x := a.trace(t, 1)
		if d := x.Landed.Longer(x.Appending); d != storeDelay {
			t.Errorf("the store took %v, and %v is told", storeDelay, d)
		}
		if d := x.Appending.Longer(x.Received) + x.Final.Longer(x.Landed); d != 0 {
			t.Errorf("%v is told of what took no time: %+v", d, x)
		}

		// Nobody asked: nothing is told. Nor of a refusal.
		a.Submit(cell.Message{Acquires: []locktable.Acquire{{Number: 2, Names: []string{"m"}}}})
		a.acquires(3, true, "n")
		time.Sleep(time.Second)
		if _, ok := a.last(2).(locktable.Granted); !ok {
			t.Errorf("told %#v", a.last(2))
		}
		if _, ok := a.last(3).(locktable.Refused); !ok {
			t.Errorf("told %#v", a.last(3))
		}
	})
}

// A waiter's trace goes on until it is granted, over the word that it waits.
func TestTraceOfAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowly(t)
		defer s.stop()
		held := s.acquire(t, "n", time.Minute, 0)
		a := s.ask()
		time.Sleep(time.Second)
		a.acquires(1, false, "n")
		time.Sleep(5 * time.Second)
		if _, ok := a.last(1).(locktable.Waiting); !ok {
			t.Fatalf("told %#v", a.last(1))
		}
		if err := s.Release(t.Context(), held.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		x := a.trace(t, 1)
		if d := x.Decided.Longer(x.Taken); d != 5*time.Second {
			t.Errorf("it waited 5 s for its turn, and %v is told", d)
		}
	})
}

// With as many batches under way as may be, one that is decided waits for a
// place; and an answer waits for the batches before its own.
func TestTraceShowsWaitForBatchSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowly(t)
		defer s.stop()
		a := s.ask()
		time.Sleep(time.Second)
		for n := range uint64(6) {
			a.acquires(n+1, true, string(rune('a'+n)))
			time.Sleep(storeDelay / 8)
		}
		time.Sleep(time.Second)
		for n := range uint64(6) {
			x := a.trace(t, n+1)
			waited, full := x.Closed.Longer(x.Decided), n >= 4
			if full != (waited > 0) {
				t.Errorf("batch %d waited %v for its place", n+1, waited)
			}
			if d := x.Landed.Longer(x.Appending); d != storeDelay {
				t.Errorf("batch %d: the store took %v, and %v is told", n+1, storeDelay, d)
			}
		}
	})
}

// Traces are bounded: the oldest are answered without one. What a stream asked
// for that has ended is forgotten.
func TestTracesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowly(t)
		defer s.stop()
		gone := s.ask()
		time.Sleep(time.Second)
		held := s.acquire(t, "z", time.Minute, 0)
		gone.acquires(1, false, "z")
		time.Sleep(time.Second)
		gone.Detach()
		a := s.ask()
		time.Sleep(time.Second)
		names := make([]string, 20)
		for i := range names {
			names[i] = string(rune('a' + i))
		}
		a.acquires(1, true, names...)
		time.Sleep(time.Second)
		for n := range uint64(20) {
			if _, ok := a.last(n + 1).(cell.Traced); ok != (n >= 4) {
				t.Errorf("request %d was told %#v", n+1, a.last(n+1))
			}
		}
		if err := s.Release(t.Context(), held.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, ok := gone.last(1).(cell.Traced); ok {
			t.Error("a stream that has ended was told")
		}
	})
}

// An acquire without a stream is followed as well, and one that repeats another.
func TestTraceOfAnAcquireWithoutAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowly(t)
		defer s.stop()
		k := clock.Bubble()
		ask := func(r cell.AcquireRequest) *cell.Trace {
			t.Helper()
			r.Received = k.Now()
			l, err := s.Acquire(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			return l.Trace
		}
		if x := ask(cell.AcquireRequest{Names: []string{"a"}}); x != nil {
			t.Errorf("nobody asked, and %+v is told", x)
		}
		for _, again := range []bool{false, true} {
			x := ask(cell.AcquireRequest{Names: []string{"b"}, RequestID: "r", Traced: true})
			if x == nil || x.Taken == (clock.Reading{}) || x.Decided == (clock.Reading{}) || x.Final.Raw < x.Decided.Raw {
				t.Fatalf("repeated: %t; told %+v", again, x)
			}
			if d := x.Landed.Longer(x.Appending); !again && d != storeDelay {
				t.Errorf("the store took %v, and %v is told", storeDelay, d)
			}
		}
		// A wait is the lock table's; a caller that gives up leaves no trace.
		held := s.acquire(t, "c", time.Minute, 0)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := cell.AcquireRequest{Names: []string{"c"}, Wait: time.Minute, Traced: true}
		if _, err := s.Acquire(short, r); err == nil {
			t.Error("granted what is held")
		}
		told := make(chan *cell.Trace)
		go func() { told <- ask(r) }()
		time.Sleep(5 * time.Second)
		if err := s.Release(t.Context(), held.ID); err != nil {
			t.Error(err)
		}
		if x := <-told; x == nil || x.Decided.Longer(x.Taken) < 4*time.Second {
			t.Errorf("it waited 5 s, and %+v is told", x)
		}
	})
}
