package httpguard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/guard"
)

func fence(resource string, t guard.Token) guard.Fence {
	return guard.Fence{Resource: resource, Token: t, Cell: "test-00000000000000aa"}
}

// in lets a request in that must be.
func in(t *testing.T, g *Gate, f guard.Fence) *visit {
	t.Helper()
	v, err := g.enter(t.Context(), f, g.o.Wait, true)
	if err != nil {
		t.Fatalf("%v: %v", f, err)
	}
	return v
}

// result is that of a call that goes on by itself.
type result struct {
	done chan struct{}
	err  error
}

func async(f func() error) *result {
	r := &result{done: make(chan struct{})}
	go func() {
		r.err = f()
		close(r.done)
	}()
	return r
}

func (r *result) over() bool { return isClosed(r.done) }

// The race that the barrier closes: see line.next.
func TestClaimWaitsForLowerRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(&Memory{}, Options{Wait: time.Hour})
		old := in(t, g, fence("x", 7))
		claim := async(func() error { return g.Claim(t.Context(), fence("x", 8)) })
		next := async(func() error { _, err := g.enter(t.Context(), fence("x", 8), g.o.Wait, true); return err })
		synctest.Wait()
		if claim.over() || next.over() {
			t.Fatal("a higher token was let in beside a lower one")
		}
		if !errors.Is(context.Cause(old.ctx), ErrSuperseded) {
			t.Errorf("the old request's context: %v", context.Cause(old.ctx))
		}
		// The mark has risen: what comes now is refused at once.
		if _, err := g.enter(t.Context(), fence("x", 7), g.o.Wait, true); !errors.Is(err, guard.ErrStale) {
			t.Errorf("a late request: %v", err)
		}
		// Another resource is not held up.
		if err := g.Claim(t.Context(), fence("y", 1)); err != nil {
			t.Errorf("another resource: %v", err)
		}
		old.leave(time.Time{})
		synctest.Wait()
		if !claim.over() || !next.over() || claim.err != nil || next.err != nil {
			t.Errorf("after the end: %+v, %+v", claim, next)
		}
	})
}

// A waiter whose caller has gone, or that a third token overtakes, is not let in.
func TestWaiterThatIsOvertakenOrGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(&Memory{}, Options{Wait: time.Hour})
		old := in(t, g, fence("x", 7))
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := async(func() error { _, err := g.enter(ctx, fence("x", 8), g.o.Wait, true); return err })
		synctest.Wait()
		mine := errors.New("the caller's own")
		cancel(mine)
		synctest.Wait()
		if !gone.over() || !errors.Is(gone.err, context.Canceled) || !errors.Is(gone.err, mine) {
			t.Fatalf("it is %+v", gone)
		}
		second := async(func() error { _, err := g.enter(t.Context(), fence("x", 8), g.o.Wait, true); return err })
		synctest.Wait()
		third := async(func() error { return g.Claim(t.Context(), fence("x", 9)) })
		synctest.Wait()
		if !second.over() || !errors.Is(second.err, guard.ErrStale) || third.over() {
			t.Fatalf("second %+v, third %+v", second, third)
		}
		old.leave(time.Time{})
		synctest.Wait()
		if !third.over() || third.err != nil {
			t.Errorf("third %+v", third)
		}
	})
}

// Waiting too long is busy, and the resource stays closed.
func TestDrainTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(&Memory{}, Options{Wait: 10 * time.Second})
		old := in(t, g, fence("x", 7))
		begun := time.Now()
		if err := g.Claim(t.Context(), fence("x", 8)); !errors.Is(err, ErrBusy) || time.Since(begun) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if _, err := g.enter(t.Context(), fence("x", 7), g.o.Wait, true); !errors.Is(err, guard.ErrStale) {
			t.Errorf("the old token after the new claim gave up: %v", err)
		}
		old.leave(time.Time{})
		if err := g.Claim(t.Context(), fence("x", 8)); err != nil {
			t.Errorf("the claim again: %v", err)
		}
	})
}

// What the proxy lost sight of holds up higher tokens until the upstream has given it up,
// and not its own.
func TestTaint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(&Memory{}, Options{Wait: time.Hour})
		in(t, g, fence("x", 7)).leave(time.Now().Add(40 * time.Second))
		in(t, g, fence("x", 7)).leave(time.Now().Add(20 * time.Second))
		in(t, g, fence("x", 7)).leave(time.Time{})
		if g.Shut(t.Context()) {
			t.Error("it is clean while the upstream may be at work")
		}
		g.shut = false
		begun := time.Now()
		if err := g.Claim(t.Context(), fence("x", 8)); err != nil || time.Since(begun) != 40*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if !g.Shut(t.Context()) {
			t.Error("it is not clean at the end")
		}
		if _, err := g.enter(t.Context(), fence("x", 8), g.o.Wait, true); !errors.Is(err, ErrBusy) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// What a gate over the marks of one that crashed knows, and does not.
func TestAfterACrash(t *testing.T) {
	const linger = time.Minute
	type crashed struct {
		name string
		// before leaves the marks of a gate that crashed.
		before func(t *testing.T, g *Gate)
		token  guard.Token
		waits  bool
	}
	plain := func(m *Memory) Marks { return struct{ Marks }{m} }
	for _, marks := range []string{"drains", "marks"} {
		for _, c := range []crashed{
			{"the holder goes on", func(t *testing.T, g *Gate) { in(t, g, fence("x", 7)) }, 7, marks == "marks"},
			{"the next one waits", func(t *testing.T, g *Gate) { in(t, g, fence("x", 7)) }, 8, true},
			{"the next one had claimed, and was waiting", func(t *testing.T, g *Gate) {
				in(t, g, fence("x", 7))
				_ = g.Claim(t.Context(), fence("x", 8)) // busy
			}, 8, true},
			{"a resource without a mark", func(*testing.T, *Gate) {}, 1, false},
			{"another resource", func(t *testing.T, g *Gate) { in(t, g, fence("y", 7)) }, 1, false},
		} {
			t.Run(marks+": "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := &Memory{}
					over := Marks(m)
					if marks == "marks" {
						over = plain(m)
					}
					c.before(t, NewGate(over, Options{Wait: time.Second}))
					g := NewGate(over, Options{Wait: time.Hour, Linger: linger, Crashed: true})
					begun := time.Now()
					v := in(t, g, fence("x", c.token))
					if waited := time.Since(begun); waited != map[bool]time.Duration{true: linger}[c.waits] {
						t.Errorf("it waited %v", waited)
					}
					v.leave(time.Time{})
				})
			})
		}
	}
}

// unsure is marks that can fail.
type unsure struct {
	Memory
	mu   sync.Mutex
	fail error
	// lands says that a claim takes effect all the same.
	lands bool
}

func (m *unsure) set(err error, lands bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail, m.lands = err, lands
}

func (m *unsure) Claim(ctx context.Context, f guard.Fence) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil && m.lands {
		_ = m.Memory.Claim(ctx, f)
	}
	if m.fail != nil {
		return m.fail
	}
	return m.Memory.Claim(ctx, f)
}

func (m *unsure) Seen(ctx context.Context, resource string) (guard.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil && !m.lands {
		return guard.State{}, m.fail
	}
	return m.Memory.Seen(ctx, resource)
}

// Nothing passes on a mark that is not durable, and what the marks hold after a failure is
// asked for again.
func TestMarksFail(t *testing.T) {
	m := &unsure{}
	g := NewGate(m, Options{})
	old := in(t, g, fence("x", 7))
	for _, lands := range []bool{false, true} {
		m.set(guard.ErrUnknown, lands)
		_, err := g.enter(t.Context(), fence("x", 8), g.o.Wait, true)
		if !errors.Is(err, ErrBusy) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("lands %t: %v", lands, err)
		}
		m.set(nil, false)
		want := map[bool]error{true: guard.ErrStale}[lands]
		v, err := g.enter(t.Context(), fence("x", 7), g.o.Wait, true)
		if !errors.Is(err, want) {
			t.Errorf("lands %t: the old token afterwards: %v", lands, err)
		}
		if v != nil {
			v.leave(time.Time{})
		}
	}
	old.leave(time.Time{})
	// Somebody raised the mark beside the gate: the marks are right.
	if err := m.Claim(t.Context(), fence("x", 20)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.enter(t.Context(), fence("x", 9), g.o.Wait, true); !errors.Is(err, guard.ErrStale) {
		t.Errorf("below a mark that was raised elsewhere: %v", err)
	}
}

// The gate forgets idle resources, and nothing that only it knows.
func TestResourcesInMemoryAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(&Memory{}, Options{Wait: time.Hour})
		in(t, g, fence("tainted", 7)).leave(time.Now().Add(time.Hour))
		in(t, g, fence("busy", 7))
		for i := range resourcesMax + 10 {
			in(t, g, fence(strconv.Itoa(i), 7)).leave(time.Time{})
		}
		synctest.Wait() // the questions to the marks end after their answers
		if s := g.Stats(); s.Resources > resourcesMax {
			t.Errorf("there are %+v", s)
		}
		for name, k := range g.lines {
			if k.place == nil && name != "busy" {
				t.Errorf("%s is in use", name)
			}
		}
		if g.lines["tainted"] == nil || g.lines["busy"] == nil {
			t.Error("it forgot what only it knew")
		}
		if _, err := g.enter(t.Context(), fence("0", 6), g.o.Wait, true); !errors.Is(err, guard.ErrStale) {
			t.Errorf("the mark of a forgotten resource: %v", err)
		}
	})
}

func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(&Memory{}, Options{Wait: time.Hour})
		old := in(t, g, fence("x", 7))
		var waiting []*result
		for range waitersMax {
			waiting = append(waiting, async(func() error { return g.Claim(t.Context(), fence("x", 8)) }))
			synctest.Wait()
		}
		if err := g.Claim(t.Context(), fence("x", 8)); !errors.Is(err, ErrBusy) {
			t.Errorf("one more: %v", err)
		}
		if err := g.Claim(t.Context(), fence("y", 8)); err != nil {
			t.Errorf("another resource: %v", err)
		}
		old.leave(time.Time{})
		synctest.Wait()
		for i, w := range waiting {
			if !w.over() || w.err != nil {
				t.Fatalf("waiter %d: %+v", i, w)
			}
		}
	})
}

// Requests of many tokens at once: at every moment those in flight have one token, and that
// does not fall.
func TestOneTokenInFlight(t *testing.T) {
	g := NewGate(&Memory{}, Options{Wait: time.Minute})
	var mu sync.Mutex
	flying, last := map[guard.Token]int{}, guard.Token(0)
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	for caller := range 8 {
		wg.Go(func() {
			for i := range 200 {
				token := guard.Token(1 + i/10 + caller%3)
				v, err := g.enter(t.Context(), fence("x", token), g.o.Wait, true)
				if errors.Is(err, guard.ErrStale) {
					continue
				}
				if err != nil {
					errs <- err
					return
				}
				mu.Lock()
				if flying[token]++; len(flying) > 1 || token < last {
					errs <- fmt.Errorf("token %d after %d, in flight %v", token, last, flying)
				}
				last = max(last, token)
				mu.Unlock()
				mu.Lock()
				if flying[token]--; flying[token] == 0 {
					delete(flying, token)
				}
				mu.Unlock()
				v.leave(time.Time{})
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if s := g.Stats(); s.InFlight != 0 || s.Waiting != 0 || g.inside != 0 {
		t.Errorf("left over: %+v, inside %d", s, g.inside)
	}
}

// Lines that stay closed for long, and are the oldest, do not keep the others in memory.
func TestForgetLooksBehindClosedLines(t *testing.T) {
	g := NewGate(&Memory{}, Options{})
	idle := func(resource string, until time.Time) {
		k := &kept{resource: resource, line: line{until: until}}
		k.place = g.idle.PushBack(k)
		g.lines[resource] = k
	}
	for n := range forgetTries {
		idle(fmt.Sprint(n), now().Add(time.Hour))
	}
	idle("quiet", time.Time{})
	if g.forget() {
		t.Error("more lines were looked at than is the bound")
	}
	if !g.forget() || g.lines["quiet"] != nil || len(g.lines) != forgetTries {
		t.Errorf("the quiet line is kept, or another is gone: %d lines", len(g.lines))
	}
}
