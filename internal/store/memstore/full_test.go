package memstore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A full store takes neither signs of life nor claims. The tenure, and with it every
// renewal, goes on until the operator has made room. A standby that was refused
// meanwhile starts its wait again.
func TestTenureSurvivesFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		server := func() *memstore.Store {
			s := disk.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL})
			t.Cleanup(s.Crash)
			return s
		}
		active, standby := server(), server()
		ten := claims(t, active, 1)
		claimed := make(chan error, 1)
		go func() {
			_, err := standby.Claim(t.Context(), store.Node{ID: [16]byte{2}}, store.Nonce{2}, nil)
			claimed <- err
		}()
		disk.SetFull(true)
		// Room is made while the standby waits: where that falls together with the
		// end of its wait, either may win.
		for range 95 {
			time.Sleep(activeTTL / 10)
			if err := ten.Confirm(t.Context()); err != nil {
				t.Fatalf("confirm on a full store: %v", err)
			}
		}
		raw := sealed(t, 1, ten.Nonce(), 2)
		if err := ten.Append(t.Context(), 2, raw); !errors.Is(err, store.ErrFull) {
			t.Errorf("append to a full store: %v", err)
		}
		disk.SetFull(false)
		if err := ten.Append(t.Context(), 2, raw); err != nil {
			t.Errorf("append once there is room: %v", err)
		}
		for range 100 {
			time.Sleep(activeTTL / 10)
			if err := ten.Confirm(t.Context()); err != nil {
				t.Fatalf("confirm once there is room: %v", err)
			}
		}
		select {
		case err := <-claimed:
			t.Fatalf("the standby took over from a living server: %v", err)
		default:
		}
		active.Crash()
		if err := <-claimed; err != nil {
			t.Errorf("the standby of a dead server: %v", err)
		}
	})
}

// One member of a store may say that it is full while it is cut off from the others, where
// a claim lands. Without a Confirm that only they can give, its word is no sign of life.
func TestFullAndCutOffIsSilent(t *testing.T) {
	for what, cut := range map[string]bool{"cut off": true, "reached": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.NewDisk().Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL})
				t.Cleanup(s.Crash)
				sent := time.Now()
				ten := claims(t, s, 1)
				plan := map[kvlog.What][]faulty.Fault{kvlog.WhatBeat: {{Refuse: store.ErrFull}}}
				if cut {
					plan[kvlog.WhatConfirm] = []faulty.Fault{{Refuse: errRefused}}
				}
				s.Plan(fates(plan))
				time.Sleep(time.Until(sent.Add(activeTTL*9/10 + activeTTL/20)))
				if err := ten.Confirm(t.Context()); errors.Is(err, store.ErrFenced) != cut || (err == nil) == cut {
					t.Errorf("with nothing but the word that the store is full: %v", err)
				}
			})
		})
	}
}
