package endtoend

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/testwait"
)

// The folder is lost as a whole. With --cell-id the cell goes on: tokens rise,
// and a client that saw the lost ones reports them.
func TestWipedFolderWithCellIDKeepsTokensRising(t *testing.T) {
	s := newServer(t)
	s.up()
	c := dial(t, s.link, 5*time.Minute)
	l := acquire(t, c, "a")
	highest, cell := l.Token(), l.Fence().Cell
	s.stop(syscall.SIGKILL)
	if err := os.RemoveAll(s.data); err != nil {
		t.Fatal(err)
	}
	s.args = []string{"--cell-id", cell}
	s.up()
	awaitEvent(t, c, pawl.StoreRolledBack)
	lostBy(t, l)
	testwait.Until(t, bound, "everybody is told of the roll-back", func() bool { return len(s.alarmed()) == 0 })
	rises(t, s, c, &highest, "b")
	if again := acquire(t, c, "a"); again.Fence().Cell != cell || again.Token() <= highest {
		t.Errorf("after %d of cell %s came %+v", highest, cell, again.Fence())
	}
}

// Without --cell-id it is another cell, whose tokens say nothing to guards that
// were claimed before; the client finds it and loses what it had.
func TestWipedFolderMakesNewCell(t *testing.T) {
	s := newServer(t)
	s.up()
	c := dial(t, s.link, 5*time.Minute)
	l := acquire(t, c, "a")
	s.stop(syscall.SIGKILL)
	if err := os.RemoveAll(s.data); err != nil {
		t.Fatal(err)
	}
	s.up()
	lostBy(t, l)
	again := acquire(t, c, "a")
	if again.Fence().Cell == l.Fence().Cell {
		t.Errorf("a fresh folder goes on as cell %s", l.Fence().Cell)
	}
	if len(s.alarmed()) != 5 {
		t.Errorf("another cell is taken for a roll-back: %s", s.said())
	}
}

// --token-floor raises what comes next by hand, for good.
func TestTokenFloor(t *testing.T) {
	s := newServer(t)
	s.up()
	c := dial(t, s.link, time.Hour)
	// Ten days of tokens: more than any clock is ahead by mistake.
	floor := acquire(t, c, "a").Token() + 10*24*3600<<20
	s.stop(syscall.SIGTERM)
	s.args = []string{"--token-floor", fmt.Sprint(uint64(floor))}
	s.up()
	if l := acquire(t, c, "b"); l.Token() <= floor {
		t.Errorf("above the floor %d came %d", floor, l.Token())
	}
	contains(t, s.want(0, "status").stdout, "ahead of the clock")
	ahead, err := time.ParseDuration(read[struct {
		Ahead string `json:"counter_ahead"`
	}](t, s.want(0, "status", "--json").stdout).Ahead)
	if err != nil || ahead < 9*24*time.Hour {
		t.Errorf("the counter is said to be %v ahead (%v)", ahead, err)
	}
	s.stop(syscall.SIGKILL)
	s.args = nil
	s.up()
	if l := acquire(t, c, "c"); l.Token() <= floor {
		t.Errorf("without the flag, after %d, came %d", floor, l.Token())
	}
	if len(s.alarmed()) != 5 {
		t.Errorf("a floor is taken for a roll-back: %s", s.said())
	}
}

// A token from far beyond the clock is believed to nobody but the operator: what
// was granted by a log with a wild floor and lost needs a floor again.
func TestTokensFromBeyondTheClock(t *testing.T) {
	s := newServer(t)
	s.up()
	probe := dial(t, s.link, time.Minute)
	floor := acquire(t, probe, "probe").Token() + 10*24*3600<<20
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	s.stop(syscall.SIGTERM)
	earlier := copyOf(t, s.data)
	s.args = []string{"--token-floor", fmt.Sprint(uint64(floor))}
	s.up()
	c := dial(t, s.link, time.Minute)
	seen := acquire(t, c, "a").Token()
	s.stop(syscall.SIGKILL)
	putBack(t, s.data, earlier)
	s.args = nil
	s.up()
	e := awaitEvent(t, c, pawl.StoreRolledBack)
	t.Logf("the client is told: %v", e.Err)
	if _, err := c.TryAcquire(t.Context(), "b"); !errors.Is(err, pawl.ErrStoreRolledBack) {
		t.Errorf("under a token from beyond the clock an acquire gives %v", err)
	}
	s.stop(syscall.SIGTERM)
	s.args = []string{"--token-floor", fmt.Sprint(uint64(seen))}
	s.up()
	var l *pawl.Lease
	testwait.Until(t, bound, "the client is served again", func() bool {
		got, err := c.TryAcquire(t.Context(), "b")
		l = got
		return err == nil
	})
	if l.Token() <= seen {
		t.Errorf("after %d came %d", seen, l.Token())
	}
}
