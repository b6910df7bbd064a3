package cell_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// reading counts what a server reads of the log once it has a tenure.
type reading struct {
	store.Store
	replays, resumed atomic.Int64
	// failResume: so many Resumes fail.
	failResume atomic.Int64
}

func (r *reading) Claim(ctx context.Context, self store.Node, nonce store.Nonce, first func(uint64, store.Nonce) []byte) (store.Tenure, error) {
	t, err := r.Store.Claim(ctx, self, nonce, first)
	return readingTenure{t, r}, err
}

type readingTenure struct {
	store.Tenure
	by *reading
}

func (t readingTenure) Replay(ctx context.Context, chunk, batch func(n uint64, b []byte) error) (uint64, error) {
	t.by.replays.Add(1)
	return t.Tenure.Replay(ctx, chunk, batch)
}

func (t readingTenure) Resume(ctx context.Context, from store.Position, batch func(n uint64, b []byte) error) (uint64, store.Published, error) {
	if t.by.failResume.Add(-1) >= 0 {
		return 0, store.Published{}, context.DeadlineExceeded
	}
	return t.Tenure.Resume(ctx, from, func(n uint64, b []byte) error {
		t.by.resumed.Add(1)
		return batch(n, b)
	})
}

// late is a clock whose wall clock is an hour behind.
type late struct{ clock.Clock }

func (k late) Wall() time.Time { return k.Clock.Wall().Add(-time.Hour) }

// standby is a server b on a disk whose reads are counted.
func standby(t *testing.T, disk *memstore.Disk) (*server, *reading) {
	t.Helper()
	k := late{clock.Bubble()}
	b := &server{store: disk.Store(memstore.Options{Clock: k, ActiveTTL: activeTTL}), end: make(chan error, 1)}
	counted := &reading{Store: b.store}
	b.Cell = cell.New(cell.Options{Store: counted, Node: store.Node{ID: [16]byte{'b'}, Link: "b"}, Clock: k, Name: "test", ActiveTTL: activeTTL})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { b.end <- b.Run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-b.end; err != nil {
			t.Errorf("b: %v", err)
		}
		b.store.Close()
	}
	return b, counted
}

func TestStandbyFollowsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		a.up(t)
		b, read := standby(t, disk)
		defer b.stop()
		if _, _, ok := b.Following(); ok {
			t.Error("a standby follows before it has read anything")
		}
		var held []cell.Lease
		for i := range 200 {
			l := a.acquire(t, fmt.Sprint("name/", i), time.Minute, 0)
			if i%2 == 0 {
				held = append(held, l)
			} else if err := a.Release(t.Context(), l.ID); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(activeTTL)
		st, err := a.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f, behind, ok := b.Following(); !ok || f.Batch != st.Batch || behind > activeTTL/2 {
			t.Errorf("the standby has batch %d of %d, %v behind, %v", f.Batch, st.Batch, behind, ok)
		}
		if _, _, ok := a.Following(); ok {
			t.Error("the active server follows")
		}
		read.failResume.Store(2)
		a.crash()
		b.up(t)
		if n, m := read.replays.Load(), read.resumed.Load(); n != 0 || m > 2 {
			t.Errorf("the take-over replayed %d times and read %d batches", n, m)
		}
		if _, _, ok := b.Following(); ok {
			t.Error("the active server follows")
		}
		for _, l := range held {
			if _, err := b.RenewLease(t.Context(), l.ID, 0); err != nil {
				t.Errorf("%s: %v", l.ID, err)
			}
		}
		if l := b.acquire(t, "name/1", time.Minute, 0); l.Granted.Token <= held[len(held)-1].Granted.Token {
			t.Errorf("token %d after %d", l.Granted.Token, held[len(held)-1].Granted.Token)
		}
	})
}

// A server that starts beside no other reads the log once.
func TestNobodyIsFollowedWithoutAnActiveServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		a.up(t)
		a.acquire(t, "name", time.Minute, 0)
		a.stop()
		b, read := standby(t, disk)
		defer b.stop()
		b.up(t)
		if n, m := read.replays.Load(), read.resumed.Load(); n != 1 || m != 0 {
			t.Errorf("replayed %d times, %d batches resumed", n, m)
		}
	})
}

// A standby has read what the store then loses: it knows that, says so, and grants no
// token twice.
func TestStandbyKnowsWhatTheStoreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		a.up(t)
		b, read := standby(t, disk)
		defer b.stop()
		a.acquire(t, "name", time.Minute, 0)
		time.Sleep(activeTTL)
		early := disk.Save()
		var lost cell.Lease
		for range 50 {
			lost = a.acquire(t, fmt.Sprint("lost/", time.Now()), time.Minute, 0)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(activeTTL / 2)
		a.crash()
		if f, _, ok := b.Following(); !ok || f.Batch == 0 {
			t.Fatal("the standby does not follow")
		}
		// The revision shows nothing.
		disk.RestoreAhead(early)
		b.up(t)
		if n := read.replays.Load(); n != 1 {
			t.Errorf("replayed %d times", n)
		}
		st, err := b.Status(t.Context())
		if err != nil || !st.RolledBack {
			t.Errorf("the roll-back is not told: %+v, %v", st, err)
		}
		if l := b.acquire(t, "next", time.Minute, 0); l.Granted.Token <= lost.Granted.Token {
			t.Errorf("token %d was granted after %d was", l.Granted.Token, lost.Granted.Token)
		}
	})
}
