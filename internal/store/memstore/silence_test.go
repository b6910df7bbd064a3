package memstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

const activeTTL = 10 * time.Second

// silent is a tenure of a new cell, whose signs of life fare as beat says.
func silent(t *testing.T, o memstore.Options, beat func() faulty.Fault) (*memstore.Store, store.Tenure) {
	t.Helper()
	o.ActiveTTL = activeTTL
	s := memstore.NewDisk().Store(o)
	t.Cleanup(s.Crash)
	s.Plan(func(x kvlog.Txn) faulty.Fault {
		if x.What == kvlog.WhatBeat {
			return beat()
		}
		return faulty.Fault{}
	})
	return s, claims(t, s, 1)
}

func claims(t *testing.T, s *memstore.Store, nonce byte) store.Tenure {
	t.Helper()
	first := func(epoch uint64, nonce store.Nonce) []byte { return sealed(t, epoch, nonce, 1) }
	ten, err := s.Claim(t.Context(), store.Node{ID: [16]byte{1}}, store.Nonce{nonce}, first)
	if err != nil {
		t.Fatal(err)
	}
	return ten
}

func sealed(t *testing.T, epoch uint64, nonce store.Nonce, n uint64) []byte {
	t.Helper()
	b := &recordpb.Batch{Epoch: epoch, Number: n, Nonce: nonce[:], Durable: n - 1}
	if n > 1 {
		b.Previous = make([]byte, 32)
	}
	raw, _, err := store.SealBatch(b)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A standby looks at signs of life and at nothing else, so nothing else lets a
// tenure go on.
func TestTenureEndsInSilence(t *testing.T) {
	for what, beat := range map[string]func() faulty.Fault{
		"refused":              func() faulty.Fault { return faulty.Fault{Refuse: errors.New("no")} },
		"landed, and unheard":  func() faulty.Fault { return faulty.Fault{LoseAnswer: true} },
		"answered, but late":   func() faulty.Fault { return faulty.Fault{Delay: activeTTL * 95 / 100} },
		"later every time":     slower(),
		"never there nor back": func() faulty.Fault { return faulty.Fault{Delay: time.Hour} },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, ten := silent(t, memstore.Options{Clock: clock.Bubble()}, beat)
				begun, n := time.Now(), uint64(2)
				var err error
				for ; err == nil && time.Since(begun) < time.Hour; n++ {
					err = errors.Join(ten.Append(t.Context(), n, sealed(t, 1, ten.Nonce(), n)), ten.Confirm(t.Context()))
					time.Sleep(activeTTL / 100)
				}
				if !errors.Is(err, store.ErrFenced) {
					t.Fatalf("the tenure ends with: %v", err)
				}
				if lived := time.Since(begun); what != "later every time" && lived > activeTTL*92/100 {
					t.Errorf("the tenure lived for %v", lived)
				}
				select {
				case <-ten.Lost():
				default:
					t.Error("no hint that the tenure is lost")
				}
				// Nobody has to be waited for.
				before := time.Now()
				s.Plan(nil)
				if next := claims(t, s, 2); next.Epoch() != 2 || time.Since(before) > activeTTL/5 {
					t.Errorf("epoch %d after %v", next.Epoch(), time.Since(before))
				}
			})
		})
	}
}

// slower answers each sign of life later than the one before.
func slower() func() faulty.Fault {
	var n atomic.Int64
	return func() faulty.Fault { return faulty.Fault{Delay: activeTTL / 20 * time.Duration(n.Add(1))} }
}

func TestTenureWithBeatsGoesOn(t *testing.T) {
	for what, o := range map[string]memstore.Options{
		"late, but in time": {}, "sole": {Sole: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			o.Clock = clock.Bubble()
			_, ten := silent(t, o, func() faulty.Fault { return faulty.Fault{Delay: activeTTL * 35 / 100} })
			for range 100 {
				time.Sleep(activeTTL / 3)
				if err := ten.Confirm(t.Context()); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
		})
	}
}

// asleep is a clock whose raw count stood still for a while.
type asleep struct {
	clock.Clock
	slept *atomic.Int64
}

func (c asleep) Now() clock.Reading {
	r := c.Clock.Now()
	r.Boot += time.Duration(c.slept.Load())
	return r
}

// A server that was asleep has been silent, though its raw clock stood still.
func TestSuspendCountsAsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := asleep{clock.Bubble(), new(atomic.Int64)}
		_, ten := silent(t, memstore.Options{Clock: k}, func() faulty.Fault { return faulty.Fault{} })
		time.Sleep(activeTTL * 5)
		if err := ten.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
		k.slept.Add(int64(activeTTL))
		if err := ten.Confirm(context.Background()); !errors.Is(err, store.ErrFenced) {
			t.Errorf("after a sleep: %v", err)
		}
	})
}

// A standby waits for as long as the active server's own active-ttl says, since by
// that it knows when it is over; for its own where a version before left it out.
func TestStandbyWaitsByTheActiveServersTTL(t *testing.T) {
	const longer, shorter = 3 * activeTTL, activeTTL / 3
	for what, x := range map[string]struct {
		standby time.Duration
		old     bool
		want    time.Duration
	}{
		"equal": {activeTTL, false, activeTTL}, "a hasty one": {shorter, false, activeTTL}, "a patient one": {longer, false, activeTTL},
		"a version before": {shorter, true, shorter}, "a version before, a patient one": {longer, true, longer},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := memstore.NewDisk()
				active := disk.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL})
				claims(t, active, 1)
				active.Crash()
				if x.old {
					leaveOut(t, disk)
				}
				var said bytes.Buffer
				standby := disk.Store(memstore.Options{
					Clock: clock.Bubble(), ActiveTTL: x.standby, Logger: slog.New(slog.NewTextHandler(&said, nil)),
				})
				t.Cleanup(standby.Crash)
				before := time.Now()
				claims(t, standby, 2)
				if waited := time.Since(before); waited < x.want || waited > x.want+activeTTL/10 {
					t.Errorf("waited %v, and not %v", waited, x.want)
				}
				if differ := x.standby != activeTTL && !x.old; differ != (strings.Count(said.String(), "another --active-ttl") == 1) {
					t.Errorf("said:\n%s", &said)
				}
			})
		})
	}
}

// leaveOut makes the tenure's key what the version before wrote.
func leaveOut(t *testing.T, d *memstore.Disk) {
	t.Helper()
	var keys kvlog.Keys
	var v map[string]any
	if err := json.Unmarshal(d.Holds(keys.Tenure()), &v); err != nil || v["active_ttl"] != activeTTL.String() {
		t.Fatalf("the tenure's key holds %v, %v", v, err)
	}
	delete(v, "active_ttl")
	raw, _ := json.Marshal(v)
	put := kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpPut, Key: keys.Tenure(), Value: raw}}}
	if _, err := d.Txn(t.Context(), put); err != nil {
		t.Fatal(err)
	}
}

// Store set back to before a take-over, as in the steps of package kvlog: the
// standby's active-ttl is shorter by far.
func TestDeposedServerWithALongerTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		server := func(ttl time.Duration) *memstore.Store {
			s := disk.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: ttl})
			t.Cleanup(s.Crash)
			return s
		}
		a, b := server(activeTTL), server(activeTTL/5)
		ten := claims(t, a, 1)
		synctest.Wait()
		a.Plan(func(kvlog.Txn) faulty.Fault { return faulty.Fault{Refuse: errors.New("no way")} })
		state := disk.Save()
		claims(t, b, 2)
		b.Crash()
		disk.Restore(state)
		a.Plan(nil)
		if err := ten.Append(t.Context(), 2, sealed(t, 1, ten.Nonce(), 2)); !errors.Is(err, store.ErrFenced) {
			t.Errorf("the deposed server appends below its successor: %v", err)
		}
	})
}
