package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/pawltest"
)

// with acquires or fails the test.
func with(t *testing.T, c *pawl.Client, name string, options ...pawl.AcquireOption) *pawl.Lease {
	t.Helper()
	l, err := c.Acquire(t.Context(), name, options...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func let(t *testing.T, all ...*pawl.Lease) {
	t.Helper()
	for _, l := range all {
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// tick lets the clock and all that is under way go on: a cell grants no more
// tokens than its clock has microseconds.
func tick() {
	time.Sleep(time.Millisecond) //tidy:bubble only called in bubbles
	synctest.Wait()
}

// Readers that wait are granted together; a writer that waits is not overtaken
// by a reader that comes later, not even by a try.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		before := with(t, a, "x")
		var readers [3]<-chan *pawl.Lease
		for i := range readers {
			readers[i] = later(t, b, "x", pawl.Shared())
			synctest.Wait()
		}
		writer := later(t, a, "x")
		synctest.Wait()
		late := later(t, b, "x", pawl.Shared())
		synctest.Wait()
		let(t, before)
		tick()
		if n := len(s.Holders(t, "x")); n != 3 || len(writer) != 0 || len(late) != 0 {
			t.Fatalf("%d hold, the writer %d, the late reader %d", n, len(writer), len(late))
		}
		if _, err := b.TryAcquire(t.Context(), "x", pawl.Shared()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("a try overtakes the writer: %v", err)
		}
		var run []*pawl.Lease
		for _, r := range readers {
			run = append(run, <-r)
		}
		first := run[0].Token()
		for i, l := range run {
			if f := l.Fence(); f.Token != first || f.Resource != "x" || f.Token <= before.Token() {
				t.Errorf("reader %d has fence %v, the run's is %d", i, f, first)
			}
			if i > 0 && l.Token() <= run[i-1].Token() {
				t.Errorf("reader %d has token %d", i, l.Token())
			}
		}
		// The run is unbroken as long as there is any reader.
		let(t, run[0], run[2])
		if n := len(writer); n != 0 {
			t.Fatal("the writer entered with a reader inside")
		}
		let(t, run[1])
		w := <-writer
		if len(late) != 0 || w.Fence().Token != w.Token() || w.Token() <= first {
			t.Errorf("the writer's fence is %v; %d readers beside it", w.Fence(), len(late))
		}
		let(t, w)
		if r := <-late; r.Fence().Token != r.Token() || r.Token() <= w.Token() {
			t.Errorf("the next run has fence %v", r.Fence())
		}
	})
}

// Readers claim with the fence of their run: they pass beside each other, and the
// writer before them is refused. A reader whose lease has ended passes until the next
// writer has claimed, and no longer.
func TestSharedFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		var g ledger
		shows := func(what string, l *pawl.Lease, want error) {
			t.Helper()
			if err := g.Claim(t.Context(), l.Fence()); !errors.Is(err, want) {
				t.Errorf("%s: %v", what, err)
			}
		}
		before := with(t, a, "x", pawl.Claim(&g))
		let(t, before)
		one := with(t, a, "x", pawl.Shared(), pawl.Claim(&g))
		two := with(t, a, "x", pawl.Shared(), pawl.Claim(&g))
		shows("one reader", one, nil)
		shows("the other reader", two, nil)
		shows("the writer before them", before, guard.ErrStale)
		let(t, one)
		shows("a reader that has ended, while others read", one, nil)
		let(t, two)
		unclaimed := with(t, a, "x")
		shows("a reader that has ended, before the writer claims", two, nil)
		shows("the writer", unclaimed, nil)
		shows("a reader that has ended, afterwards", two, guard.ErrStale)
		let(t, unclaimed)
	})
}

// C59: a new reader every half second, each stays for a second. The writer has
// to wait for those before it and for nobody else.
func TestWriterIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		readers, writer := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		end, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			for end.Err() == nil {
				all.Go(func() {
					_ = readers.Do(end, "x", func(context.Context, guard.Fence) error {
						time.Sleep(time.Second)
						return nil
					}, pawl.Shared())
				})
				time.Sleep(500 * time.Millisecond)
			}
		})
		time.Sleep(3250 * time.Millisecond)
		asked := time.Now()
		w := with(t, writer, "x")
		if d := time.Since(asked); d > time.Second {
			t.Errorf("the writer waited for %v", d)
		}
		time.Sleep(time.Second)
		let(t, w)
		stop()
		all.Wait()
	})
}

// All or nothing: a waiter for several names holds none of them, and its one
// lease gives all of them back.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		z := with(t, a, "z")
		_, err := b.TryAcquire(t.Context(), "x", pawl.Names("y", "z"))
		var held *pawl.HeldError
		if !errors.As(err, &held) || held.Token != z.Token() || held.Name != "z" || !strings.Contains(err.Error(), `"z" is held`) {
			t.Errorf("a try: %v", err)
		}
		got := later(t, b, "x", pawl.Names("y", "z", "x", "y"))
		synctest.Wait()
		for _, name := range []string{"x", "y"} {
			if n := len(s.Holders(t, name)); n != 0 || s.Waiting(t, name) != 1 {
				t.Errorf("%q is held by %d", name, n)
			}
		}
		let(t, z)
		l := <-got
		if l.Name() != "x" || !slices.Equal(l.Names(), []string{"x", "y", "z"}) {
			t.Errorf("names %q", l.Names())
		}
		for _, name := range l.Names() {
			if f := l.Fence(name); f.Resource != name || f.Token != l.Token() {
				t.Errorf("fence of %q: %v", name, f)
			}
		}
		if f := l.Fence(); f.Token != 0 || l.Fence("w").Token != 0 || l.Slot("x") != 0 {
			t.Errorf("the fence of no name: %v", f)
		}
		let(t, l)
		let(t, with(t, a, "y"), with(t, a, "z"), with(t, a, "x"))

		// Every guard is claimed with every fence.
		g, h := &slowGuard{}, &slowGuard{fail: []error{guard.ErrUnknown}}
		l = with(t, a, "x", pawl.Names("y"), pawl.Slots(2), pawl.Claim(g, h))
		want := []guard.Fence{l.Fence("x"), l.Fence("y")}
		for i, f := range want {
			if g.claimed[i].Resource != f.Resource || f.Resource != []string{"x\x1f1", "y\x1f1"}[i] {
				t.Errorf("claimed %v, the fence is %v", g.claimed[i], f)
			}
		}
		if len(g.claimed) != 2 || len(h.claimed) != 3 {
			t.Errorf("claimed %v and %v", g.claimed, h.claimed)
		}
		let(t, l)
		stale := &slowGuard{fail: []error{nil, guard.ErrStale}}
		if _, err := a.Acquire(t.Context(), "x", pawl.Names("y"), pawl.Claim(stale)); !errors.Is(err, guard.ErrStale) {
			t.Errorf("a stale claim: %v", err)
		}
		if n := len(s.Holders(t, "x")) + len(s.Holders(t, "y")); n != 0 {
			t.Errorf("%d names are held after a claim failed", n)
		}
	})
}

// Those who want each other's names in the other order do not block each other.
func TestNamesInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		names := []string{"p", "q", "r", "s", "t"}
		var inside [5]atomic.Int32
		var all sync.WaitGroup
		for i := range names {
			c := s.Dial(t, pawl.Options{TTL: ttl})
			left, right := i, (i+1)%len(names)
			if i%2 == 1 {
				left, right = right, left
			}
			all.Go(func() {
				for range 50 {
					err := c.Do(t.Context(), names[left], func(_ context.Context, f guard.Fence) error {
						if f.Resource != names[left] {
							t.Errorf("fence %v under %q", f, names[left])
						}
						if inside[left].Add(1) != 1 || inside[right].Add(1) != 1 {
							t.Error("two hold a name")
						}
						time.Sleep(time.Millisecond)
						inside[left].Add(-1)
						inside[right].Add(-1)
						return nil
					}, pawl.Names(names[right]))
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}

// The name stays closed after a crash and after a forced break, and to nobody
// who reads; after a release, a break that the holder confirmed too, it is free.
func TestLockDelay(t *testing.T) {
	const delay = 7 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		a, b := path.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		free := func(after string) {
			t.Helper()
			start := time.Now()
			let(t, with(t, b, "x"))
			if d := time.Since(start); d > 100*time.Millisecond {
				t.Errorf("after %s: closed for %v", after, d)
			}
		}
		closed := func(after string, least time.Duration) {
			t.Helper()
			start := time.Now()
			_, err := b.TryAcquire(t.Context(), "x")
			var held *pawl.HeldError
			if !errors.As(err, &held) {
				t.Fatalf("after %s: %v", after, err)
			}
			if held.Token == 0 && !strings.Contains(err.Error(), "is closed for") {
				t.Errorf("after %s: %v", after, err)
			}
			next := with(t, b, "x")
			if d := time.Since(start); d < least || d > least+2*time.Second {
				t.Errorf("after %s: closed for %v, not %v", after, d, least)
			}
			let(t, next)
		}

		let(t, with(t, a, "x", pawl.LockDelay(delay)))
		free("a release")

		l := with(t, a, "x", pawl.LockDelay(delay))
		s.Break(t, "x", "maintenance", false)
		<-l.Context().Done()
		if _, err := b.TryAcquire(t.Context(), "x"); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("it is free before its holder let go: %v", err)
		}
		let(t, l)
		free("a break in two steps")

		l = with(t, a, "x", pawl.LockDelay(delay))
		s.Break(t, "x", "now", true)
		<-l.Context().Done()
		let(t, with(t, b, "x", pawl.Shared()))
		closed("a forced break", delay)

		l = with(t, a, "x", pawl.LockDelay(delay))
		path.Cut()
		<-l.Context().Done()
		closed("a crash", delay)
		path.Heal()

		// The rest of it outlives the server.
		l = with(t, a, "x", pawl.LockDelay(delay))
		s.Break(t, "x", "now", true)
		<-l.Context().Done()
		time.Sleep(delay / 2)
		s.Restart()
		closed("a restart", delay/2)
	})
}

// A break in two steps concerns one of several holders.
func TestBreakOneOfSeveral(t *testing.T) {
	for _, mode := range []pawl.AcquireOption{pawl.Shared(), pawl.Slots(2)} {
		synctest.Test(t, func(t *testing.T) {
			s := pawltest.New(t)
			a, b := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
			one, two := with(t, a, "x", mode), with(t, b, "x", mode)
			s.Break(t, "x", "maintenance", false)
			<-one.Context().Done()
			if cause := context.Cause(one.Context()); !errors.Is(cause, pawl.ErrBroken) {
				t.Errorf("cause %v", cause)
			}
			time.Sleep(2 * ttl)
			if two.Context().Err() != nil || len(s.Holders(t, "x")) != 2 {
				t.Error("the other one was told, or the first has ended before it let go")
			}
			let(t, one, two)
		})
	}
}

// What is out of bounds is refused at once, also when no server is there.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: ttl})
		many := make([]string, 64)
		for i := range many {
			many[i] = fmt.Sprint("n", i)
		}
		value := make([]byte, 64<<10+1)
		let(t,
			with(t, a, "n1", pawl.Names(many...), pawl.Value(value[1:]), pawl.LockDelay(time.Hour)),
			with(t, a, "x", pawl.Slots(10_000)),
		)
		s.Stop()
		for what, options := range map[string][]pawl.AcquireOption{
			"names":          {pawl.Names(many...)},
			"a name":         {pawl.Names("\xff")},
			"value":          {pawl.Value(value)},
			"no slot":        {pawl.Slots(0)},
			"slots":          {pawl.Slots(10_001)},
			"shared slots":   {pawl.Slots(2), pawl.Shared()},
			"lock-delay":     {pawl.LockDelay(time.Hour + 1)},
			"less than none": {pawl.LockDelay(-1)},
		} {
			if l, err := a.Acquire(t.Context(), "x", options...); l != nil || !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("%s: %v, %v", what, l, err)
			}
		}
		for _, mode := range []pawl.AcquireOption{pawl.Shared(), pawl.Slots(1)} {
			if _, err := a.Campaign(t.Context(), "x", nil, mode); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("campaign: %v", err)
			}
		}
		for _, name := range []string{"", "a\nb", "a\u0080", string(make([]byte, 513)), "\xff"} {
			for l, err := range a.Observe(t.Context(), name) {
				if l.Token != 0 || !errors.Is(err, pawl.ErrInvalid) {
					t.Errorf("observe %q: %v", name, err)
				}
			}
		}
		s.Start()
	})
}
