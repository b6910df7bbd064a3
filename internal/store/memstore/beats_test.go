package memstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

var errRefused = errors.New("refused")

// fates is a plan that gives the transactions of each kind their fates in order, and
// every further one of a kind that it names the last of its fates.
func fates(all map[kvlog.What][]faulty.Fault) func(kvlog.Txn) faulty.Fault {
	var mu sync.Mutex
	return func(x kvlog.Txn) faulty.Fault {
		mu.Lock()
		defer mu.Unlock()
		left := all[x.What]
		if len(left) == 0 {
			return faulty.Fault{}
		}
		if len(left) > 1 {
			all[x.What] = left[1:]
		}
		return left[0]
	}
}

// A standby counts from when a sign of life lands, which may be as early as its first
// sending. So the tenure ends nine tenths of the active-ttl after the first sending,
// however late the answer comes and whichever try is answered.
func TestBeatCountsFromFirstSending(t *testing.T) {
	const (
		late = activeTTL * 4 / 10
		end  = activeTTL * 9 / 10
	)
	dead := faulty.Fault{Refuse: errRefused}
	for what, plan := range map[string]map[kvlog.What][]faulty.Fault{
		"claim answered late":                    {kvlog.WhatFresh: {{Delay: late}}, kvlog.WhatBeat: {dead}},
		"claim refused late and sent again":      {kvlog.WhatFresh: {{Delay: late, Refuse: errRefused}, {}}, kvlog.WhatBeat: {dead}},
		"claim unanswered and found by a retry":  {kvlog.WhatFresh: {{LoseAnswer: true}, {Delay: late}}, kvlog.WhatBeat: {dead}},
		"beat answered late":                     {kvlog.WhatBeat: {{Delay: late}, dead}},
		"beat refused late, since store is full": {kvlog.WhatBeat: {{Delay: late, Refuse: store.ErrFull}, dead}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.NewDisk().Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL})
				t.Cleanup(s.Crash)
				s.Plan(fates(plan))
				sent := time.Now()
				ten := claims(t, s, 1)
				time.Sleep(time.Until(sent.Add(end - time.Nanosecond)))
				if err := ten.Confirm(t.Context()); err != nil {
					t.Errorf("just before the end of the tenure: %v", err)
				}
				time.Sleep(time.Nanosecond)
				if err := ten.Confirm(t.Context()); !errors.Is(err, store.ErrFenced) {
					t.Errorf("%v after the sign of life was sent: %v; the tenure is over", end, err)
				}
			})
		})
	}
}

// What a tenure sent in time and is answered after its end tells nothing: a standby
// may have claimed meanwhile. What it was to send after its end is not sent.
func TestAnswerAfterTenureIsIgnored(t *testing.T) {
	for what, call := range map[kvlog.What]func(*testing.T, store.Tenure) error{
		kvlog.WhatAppend: func(t *testing.T, ten store.Tenure) error {
			return ten.Append(t.Context(), 2, sealed(t, 1, ten.Nonce(), 2))
		},
		kvlog.WhatConfirm: func(t *testing.T, ten store.Tenure) error { return ten.Confirm(t.Context()) },
	} {
		for _, sent := range []time.Duration{activeTTL * 8 / 10, activeTTL * 9 / 10} {
			t.Run(string(what)+" after "+sent.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					disk := memstore.NewDisk()
					s := disk.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL})
					t.Cleanup(s.Crash)
					s.Plan(fates(map[kvlog.What][]faulty.Fault{
						kvlog.WhatBeat: {{Delay: time.Hour}}, what: {{Delay: activeTTL / 10}},
					}))
					ten := claims(t, s, 1)
					time.Sleep(sent)
					begun := time.Now()
					if err := call(t, ten); !errors.Is(err, store.ErrFenced) {
						t.Errorf("a tenure that has had its time: %v", err)
					}
					if late := sent >= activeTTL*9/10; late && (time.Since(begun) != 0 || disk.Holds(kvlog.Keys{}.Log(2)) != nil) {
						t.Error("a tenure that is over went on sending")
					}
				})
			})
		}
	}
}

// A tenure that is over, or was to be resigned, gives no sign of life any more: the
// next server would wait for one that serves nobody.
func TestNoBeatAfterTenureEnds(t *testing.T) {
	for what, end := range map[string]func(*testing.T, *memstore.Disk, store.Tenure){
		"resigned, without an answer": func(t *testing.T, _ *memstore.Disk, ten store.Tenure) {
			if err := ten.Resign(t.Context()); err == nil {
				t.Error("a resignation that was refused succeeds")
			}
		},
		"overtaken": func(t *testing.T, disk *memstore.Disk, ten store.Tenure) {
			do(t, disk, kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpDelete, Key: kvlog.Keys{}.Tenure(), End: kvlog.Keys{}.Tenure() + "\x00"}}})
			if err := ten.Confirm(t.Context()); !errors.Is(err, store.ErrFenced) {
				t.Errorf("confirm without a tenure: %v", err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := memstore.NewDisk()
				s := disk.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL})
				t.Cleanup(s.Crash)
				var beats atomic.Int64
				s.Plan(func(x kvlog.Txn) faulty.Fault {
					switch x.What {
					case kvlog.WhatBeat:
						beats.Add(1)
					case kvlog.WhatResign:
						return faulty.Fault{Refuse: errRefused}
					}
					return faulty.Fault{}
				})
				ten := claims(t, s, 1)
				time.Sleep(activeTTL + activeTTL/20)
				end(t, disk, ten)
				before := beats.Load()
				time.Sleep(5 * activeTTL)
				if n := beats.Load() - before; before == 0 || n != 0 {
					t.Errorf("%d signs of life before the end, and %d after it", before, n)
				}
			})
		})
	}
}

// A server that has nothing to write and nothing to confirm finds out by its next sign
// of life that its tenure is over.
func TestBeatFindsTenureOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := disk.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL})
		t.Cleanup(s.Crash)
		ten := claims(t, s, 1)
		time.Sleep(activeTTL)
		do(t, disk, kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpDelete, Key: kvlog.Keys{}.Tenure(), End: kvlog.Keys{}.Tenure() + "\x00"}}})
		time.Sleep(activeTTL / 5)
		select {
		case <-ten.Lost():
		default:
			t.Error("no hint that the tenure is lost, after two signs of life")
		}
	})
}

// A tenure that was handed over is taken by one of those who saw it, whoever is first.
func TestHandOverIsAcceptedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		first := disk.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL})
		t.Cleanup(first.Crash)
		if err := claims(t, first, 1).Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), activeTTL/2)
		defer stop()
		var accepted atomic.Int64
		var all sync.WaitGroup
		for n := range byte(2) {
			s := disk.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL})
			t.Cleanup(s.Crash)
			// Both see it before either claims.
			s.Plan(fates(map[kvlog.What][]faulty.Fault{kvlog.WhatClaim: {{Delay: activeTTL / 10 * time.Duration(n+1)}}}))
			all.Go(func() {
				if _, err := s.Claim(ctx, store.Node{ID: [16]byte{n + 2}}, store.Nonce{n + 2}, nil); err == nil {
					accepted.Add(1)
				}
			})
		}
		all.Wait()
		if n := accepted.Load(); n != 1 {
			t.Errorf("%d servers accepted the tenure", n)
		}
	})
}
