package sdk

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// C54: the store is slow with every write and fast with reads, and the server dies at
// the moment that the answer to an acquire has left it. The lease that was answered is
// in the store: the next server finds it, under the same token.
func TestAnsweredIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t)
		for n := range 20 {
			i := c.launch(t, c.disk, "one", 1, clock.Bubble())
			<-i.cell.Ready()
			i.store.Plan(func(x kvlog.Txn) faulty.Fault {
				if x.What == kvlog.WhatAppend {
					return faulty.Fault{Delay: time.Duration(1+n*5) * time.Millisecond}
				}
				return faulty.Fault{}
			})
			name := string(rune('a' + n))
			l, err := i.cell.Acquire(t.Context(), cell.AcquireRequest{Names: []string{name}, TTL: time.Hour})
			i.crash()
			if err != nil {
				t.Fatal(err)
			}
			i = c.launch(t, c.disk, "one", 1, clock.Bubble())
			<-i.cell.Ready()
			found := false
			for _, seen := range listAll(t, i) {
				found = found || seen.Name == name && len(seen.Tokens) == 1 && seen.Tokens[0] == l.Granted.Token
			}
			if !found {
				t.Errorf("%s was granted under %d with writes that take %d ms, and is not held: %+v", name, l.Granted.Token, 1+n*5, listAll(t, i))
			}
			if err := i.cell.Release(t.Context(), l.ID); err != nil {
				t.Errorf("release %s: %v", name, err)
			}
			i.crash()
		}
	})
}
