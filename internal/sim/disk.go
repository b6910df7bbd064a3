package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// errNoAnswer is what a server is told when the store does not answer.
var errNoAnswer = errors.New("sim: no answer from the store")

// disk is the store that all servers share, at the other end of their wires.
type disk struct {
	*memstore.Disk
	world *World
	rng   *rand.Rand
	down  bool
	// upSince is when it was reached again.
	upSince time.Duration
	// tight: there is little room. full: there is none.
	tight, full bool
	// saved is what a roll-back goes back to; watched has it saved before the
	// next write of a kind.
	saved   *memstore.State
	ledger  saved
	watched kvlog.What
	onWatch func()
}

func newDisk(w *World) *disk {
	return &disk{Disk: memstore.NewDisk(), world: w, rng: w.random(purposeDisk)}
}

// cable is one server process's way to the disk.
type cable struct{ server *server }

var _ kvlog.KV = cable{}

// Txn sends a transaction and waits for its answer.
func (x cable) Txn(ctx context.Context, t kvlog.Txn) (kvlog.Result, error) {
	f, err := x.coroutine(ctx)
	if err != nil {
		return kvlog.Result{}, err
	}
	w := x.server.world
	d := w.disk
	if t.Writes() && chance(d.rng, d.faultRates().Repeat) {
		late := pick(d.rng, 500*time.Millisecond, 3*time.Second, 20*time.Second)
		w.at(w.now+between(d.rng, time.Millisecond, late), func() { d.repeat(x.server.name, t) })
	}
	d.carry(x.server, f, func() outcome { return d.land(x.server.name, t) })
	if !f.wait() {
		return kvlog.Result{}, context.Canceled
	}
	return f.got.result, f.got.err
}

// Range reads keys.
func (x cable) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	f, err := x.coroutine(ctx)
	if err != nil {
		return kvlog.Page{}, err
	}
	w := x.server.world
	d := w.disk
	d.carry(x.server, f, func() (o outcome) {
		o.page, o.err = d.Range(context.Background(), q)
		return o
	})
	if !f.wait() {
		return kvlog.Page{}, context.Canceled
	}
	return f.got.page, f.got.err
}

// Compact is not needed in a world as short as this.
func (x cable) Compact(context.Context, int64) error { return nil }

func (x cable) coroutine(ctx context.Context) (*coroutine, error) {
	f := x.server.world.running
	if f.ended {
		return nil, context.Canceled
	}
	return f, ctx.Err()
}

// outcome is what the disk answered.
type outcome struct {
	result kvlog.Result
	page   kvlog.Page
	err    error
}

// carry takes a request to the disk and the answer back, as far as the fault rates
// lets it. Whatever becomes of it, the coroutine goes on after a while.
func (d *disk) carry(s *server, f *coroutine, do func() outcome) {
	w, rates, life := d.world, d.faultRates(), s.life
	f.asked++
	ticket := f.asked
	resolve := func(o outcome) {
		if f.asked == ticket {
			f.asked++
			f.got = o
			f.run()
		}
	}
	there, back := d.delay(rates), d.delay(rates)
	lost, mute := chance(d.rng, rates.LoseRequest), chance(d.rng, rates.LoseAnswer)
	w.after(&s.process, between(d.rng, 300*time.Millisecond, w.plan.ActiveTTL), func() { resolve(outcome{err: errNoAnswer}) })
	if lost || d.down || s.cut {
		return
	}
	w.at(w.now+there, func() {
		if d.down || s.cut {
			return
		}
		o, due := do(), w.now+back
		if mute || s.life != life {
			return
		}
		w.after(&s.process, back, func() {
			// A process that was stopped does not find things in the order in which
			// they came.
			if w.now > due+time.Millisecond {
				w.after(&s.process, between(d.rng, 0, 2*time.Millisecond), func() { resolve(o) })
				return
			}
			resolve(o)
		})
	})
}

// repeat lands a write once more, long after.
func (d *disk) repeat(who string, t kvlog.Txn) {
	if !d.down {
		d.land(who+" (again)", t)
	}
}

// land carries out a transaction, under the referee's eyes.
func (d *disk) land(who string, t kvlog.Txn) (o outcome) {
	if d.watched == t.What && d.onWatch != nil {
		then := d.onWatch
		d.onWatch = nil
		then()
	}
	o.result, o.err = d.Disk.Txn(context.Background(), t)
	if t.Writes() && t.What != kvlog.WhatBeat {
		d.world.note("disk", "%s of %s %s: %v", t.What, who, target(t), o.result.OK)
	}
	if o.err == nil {
		d.world.referee.landed(t, o.result)
	}
	return o
}

// target is the last key that a transaction writes.
func target(t kvlog.Txn) string { return t.Then[len(t.Then)-1].Key }

func (d *disk) faultRates() FaultRates { return d.world.faultRates() }

// delay is the time to the disk or back: mostly short.
func (d *disk) delay(x FaultRates) time.Duration {
	if chance(d.rng, x.SlowStore) {
		return between(d.rng, 5*time.Millisecond, 1200*time.Millisecond)
	}
	return between(d.rng, 50*time.Microsecond, 2*time.Millisecond)
}
