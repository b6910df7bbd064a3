package sim

import (
	"iter"
	"slices"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// coroutine runs code that waits. It runs only while the world has resumed it, and the
// world goes on when it waits.
type coroutine struct {
	world  *World
	who    *process
	resume func() (struct{}, bool)
	end    func()
	yield  func(struct{}) bool
	ended  bool

	// asked numbers what the coroutine asked the disk, got is what it was answered.
	asked uint64
	got   outcome
}

// spawn begins a coroutine of a process.
func (w *World) spawn(p *process, job func()) {
	f := &coroutine{world: w, who: p}
	f.resume, f.end = iter.Pull(func(yield func(struct{}) bool) {
		f.yield = yield
		job()
	})
	p.coroutines = append(p.coroutines, f)
	w.after(p, 0, f.run)
}

// run goes on with the coroutine until it waits again or is done.
func (f *coroutine) run() {
	w := f.world
	if f.ended {
		return
	}
	before := w.running
	w.running = f
	_, more := f.resume()
	w.running = before
	if !more {
		f.ended = true
		f.who.forget(f)
	}
}

// wait hands back to the world; false: the coroutine's process is dead.
func (f *coroutine) wait() bool { return !f.ended && f.yield(struct{}{}) && !f.ended }

// stop ends the coroutine where it waits. The context of its process must be cancelled
// before, so that the code gives up.
func (f *coroutine) stop() {
	w := f.world
	f.ended = true
	before := w.running
	w.running = f
	f.end()
	w.running = before
}

// forget drops a coroutine that is done.
func (p *process) forget(f *coroutine) {
	p.coroutines = slices.DeleteFunc(p.coroutines, func(x *coroutine) bool { return x == f })
}

// stop ends the process's coroutines. The context that they wait on must be cancelled
// before.
func (p *process) stop() {
	all := p.coroutines
	p.coroutines = nil
	for _, f := range all {
		f.stop()
	}
}

// sleep waits in a coroutine; false: the process is dead.
func (w *World) sleep(d time.Duration) bool {
	f := w.running
	if f.ended {
		return false
	}
	w.after(f.who, max(d, 0), f.run)
	return f.wait()
}

// processClock is a process's clock as the store protocol takes it. Its timers
// wait when they are armed, which in a coroutine comes to the same.
type processClock struct {
	world *World
	who   *process
}

func (k processClock) Now() clock.Reading { return k.who.clock.read(k.world.now) }
func (k processClock) Wall() time.Time    { return k.who.clock.wall(k.world.now) }
func (k processClock) NewTimer() clock.Timer {
	return &coroutineTimer{world: k.world, c: make(chan struct{}, 1)}
}
func (k processClock) NewAlarm() clock.Timer { return k.NewTimer() }

// hastyClock runs three times as fast while its server stands by, so that it takes
// over from one that lives: a time that is too short must cost a tenure and no more.
type hastyClock struct {
	processClock
	server *server
	last   clock.Reading
	ahead  time.Duration
}

func (k *hastyClock) Now() clock.Reading {
	now := k.processClock.Now()
	if !k.server.serving {
		k.ahead += 2 * now.Shorter(k.last)
	}
	k.last = now
	return clock.Reading{Boot: now.Boot + k.ahead, Raw: now.Raw + k.ahead}
}

// storeClock is what the store protocol of a server goes by.
func (s *server) storeClock() clock.Clock {
	k := processClock{s.world, &s.process}
	if s.world.plan.Hasty && s.id > 0 {
		return &hastyClock{processClock: k, server: s, last: k.Now()}
	}
	return k
}

type coroutineTimer struct {
	world *World
	c     chan struct{}
}

func (t *coroutineTimer) C() <-chan struct{} { return t.c }
func (t *coroutineTimer) Stop()              {}

func (t *coroutineTimer) Reset(d time.Duration) {
	select {
	case <-t.c:
	default:
	}
	if t.world.sleep(d) {
		t.c <- struct{}{}
	}
}
