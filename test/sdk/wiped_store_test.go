package sdk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// C90: all keys of a cell are deleted under its running server. It reports that, in its
// status too, and goes on with a cell of another id. Holders learn of it, the name can
// be acquired, and the token is above the lost ones.
func TestWipedStoreMakesNewCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t)
		i := c.launch(t, c.disk, "one", 1, clock.Bubble())
		<-i.cell.Ready()
		before := i.cell.Info().Cell
		a, b := c.client(5*time.Second, "one"), c.client(5*time.Second, "one")
		held, free := c.take(a, "held"), c.take(b, "free")
		c.let(free)
		time.Sleep(time.Minute) // nobody is told anything without a reason
		if st, err := i.link.Status(t.Context(), &linkpb.StatusRequest{}); err != nil || st.RolledBack {
			t.Fatalf("before: %v, %v", st, err)
		}
		wipe := kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpDelete, Key: "\x00", End: "\xff"}}}
		if _, err := c.disk.Txn(t.Context(), wipe); err != nil {
			t.Fatal(err)
		}
		<-held.Context().Done()
		if cause := context.Cause(held.Context()); !errors.Is(cause, pawl.ErrLost) {
			t.Errorf("the holder is told %v", cause)
		}
		for _, name := range []string{"free", "held"} {
			if l := c.take(b, name); l.Token() <= held.Token() || l.Token() <= free.Token() || l.Fence().Cell == before {
				t.Errorf("%s: token %d of %s after %d of %s", name, l.Token(), l.Fence().Cell, free.Token(), before)
			}
		}
		if st, err := i.link.Status(t.Context(), &linkpb.StatusRequest{}); err != nil || !st.RolledBack || st.Cell == before {
			t.Errorf("afterwards: %v, %v", st, err)
		}
	})
}
