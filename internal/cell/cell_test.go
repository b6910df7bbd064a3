package cell_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

const activeTTL = 3 * time.Second

// server is a cell on a disk, in a bubble.
type server struct {
	*cell.Cell
	store  *memstore.Store
	cancel func()
	stop   func()
	end    chan error
}

func start(t *testing.T, disk *memstore.Disk, name string, sole bool) *server {
	t.Helper()
	k := clock.Bubble()
	s := &server{store: disk.Store(memstore.Options{Clock: k, ActiveTTL: activeTTL, Sole: sole}), end: make(chan error, 1)}
	node := store.Node{Link: name}
	copy(node.ID[:], name)
	s.Cell = cell.New(cell.Options{Store: s.store, Node: node, Clock: k, Name: "test", ActiveTTL: activeTTL})
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	go func() { s.end <- s.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-s.end; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.store.Close()
	}
	return s
}

// up waits until the server serves.
func (s *server) up(t *testing.T) {
	t.Helper()
	select {
	case <-s.Ready():
	case err := <-s.end:
		t.Fatalf("the server ended: %v", err)
	}
}

// crash ends the server as SIGKILL does.
func (s *server) crash() {
	s.store.Crash()
	s.stop()
}

func (s *server) acquire(t *testing.T, name string, ttl, wait time.Duration) cell.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{name}, TTL: ttl, Wait: wait})
	if err != nil {
		t.Fatalf("acquire %s: %v", name, err)
	}
	return l
}

func reasonOf(err error) locktable.Reason {
	var no *cell.RefusedError
	if errors.As(err, &no) {
		return no.Reason
	}
	return locktable.Reason(fmt.Sprint(err))
}

func TestUnary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)

		a := s.acquire(t, "orders/7", 10*time.Second, 0)
		_, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"orders/7"}})
		var no *cell.RefusedError
		if !errors.As(err, &no) || no.Reason != locktable.Held || no.Holder == nil || no.Holder.Token != a.Granted.Token {
			t.Fatalf("a second try: %v", err)
		}
		p, err := s.List(t.Context(), locktable.List{Prefix: "orders/"})
		if err != nil || len(p.Locks) != 1 || p.Locks[0].Holders[0].Token != a.Granted.Token {
			t.Fatalf("list: %v %v", p, err)
		}
		if err := s.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), a.ID); reasonOf(err) != locktable.Gone {
			t.Fatalf("a second release: %v", err)
		}
		if b := s.acquire(t, "orders/7", 10*time.Second, 0); b.Granted.Token <= a.Granted.Token {
			t.Fatalf("token %d follows %d", b.Granted.Token, a.Granted.Token)
		}
		st, err := s.Status(t.Context())
		if err != nil || st.Leases != 1 || st.Sessions != 1 || !st.Active {
			t.Fatalf("status: %+v %v", st, err)
		}
	})
}

func TestExpiryHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		begin := time.Now()
		a := s.acquire(t, "n", 5*time.Second, 0)
		b := s.acquire(t, "n", 5*time.Second, time.Minute)
		took := time.Since(begin)
		if took < 5*time.Second || took > 6*time.Second {
			t.Errorf("handed over after %v; between the TTL and a second more was expected", took)
		}
		if b.Granted.Token <= a.Granted.Token {
			t.Errorf("token %d follows %d", b.Granted.Token, a.Granted.Token)
		}
		if w := b.Granted.Waited; w > took || w < took-time.Second {
			t.Errorf("waited %v of %v", w, took)
		}
		if _, err := s.RenewLease(t.Context(), a.ID, 0); reasonOf(err) != locktable.Gone {
			t.Errorf("renew of the expired lease: %v", err)
		}
	})
}

func TestRenewedLeaseIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		a := s.acquire(t, "n", 2*time.Second, 0)
		for range 20 {
			time.Sleep(time.Second)
			if _, err := s.RenewLease(t.Context(), a.ID, 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestCancelledWaiterLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		a := s.acquire(t, "n", time.Minute, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Acquire(ctx, cell.AcquireRequest{Names: []string{"n"}, Wait: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("acquire: %v", err)
		}
		_, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"n"}, Wait: time.Second})
		if reasonOf(err) != locktable.Held {
			t.Fatalf("acquire: %v", err)
		}
		p, err := s.List(t.Context(), locktable.List{Name: "n"})
		if err != nil || len(p.Locks[0].Waiters) != 0 {
			t.Fatalf("list: %+v %v", p, err)
		}
		if err := s.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		s.acquire(t, "n", time.Minute, 0)
	})
}

// A crash at any moment loses no grant, repeats no token, and counts the time
// without a server against nobody.
func TestRestartKeepsGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		var last guard.Token
		held := map[string]cell.Lease{}
		for round := range 5 {
			s := start(t, disk, "a", true)
			s.up(t)
			for name, l := range held {
				if _, err := s.RenewLease(t.Context(), l.ID, 0); err != nil {
					t.Fatalf("round %d: %s is lost: %v", round, name, err)
				}
			}
			for i := range 10 {
				name := fmt.Sprintf("n/%d/%d", round, i)
				l := s.acquire(t, name, 10*time.Second, 0)
				if l.Granted.Token <= last {
					t.Fatalf("token %d follows %d", l.Granted.Token, last)
				}
				last, held[name] = l.Granted.Token, l
			}
			s.crash()
			time.Sleep(time.Minute)
		}
	})
}

// The holder is dead and the server restarts again and again: the lease ends
// all the same.
func TestRestartsDoNotExtendDeadSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		s := start(t, disk, "a", true)
		s.up(t)
		s.acquire(t, "n", 8*time.Second, 0)
		for round := range 8 {
			time.Sleep(5 * time.Second)
			s.crash()
			s = start(t, disk, "a", true)
			s.up(t)
			if _, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"n"}}); err == nil {
				t.Logf("free in round %d", round)
				s.stop()
				return
			}
		}
		s.stop()
		t.Error("still held after eight restarts")
	})
}

// While the store is silent nobody waits for ever, neither a caller nor who stops
// the server; and what a caller gave up is released when it comes after all.
func TestSilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		s.up(t)
		l := s.acquire(t, "n", time.Minute, 0)
		s.store.Stall()
		for what, call := range map[string]func() error{
			"try": func() error {
				_, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"m"}, TTL: time.Hour})
				return err
			},
			"wait": func() error {
				_, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"n"}, Wait: time.Second})
				return err
			},
			"renew": func() error {
				_, err := s.RenewLease(t.Context(), l.ID, 0)
				return err
			},
		} {
			begin := time.Now()
			if err := call(); reasonOf(err) != locktable.Unavailable {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(begin); took > 2*activeTTL+2*time.Second {
				t.Errorf("%s: answered after %v", what, took)
			}
		}
		s.store.Resume()
		s.acquire(t, "m", time.Minute, time.Second)
		if p, err := s.List(t.Context(), locktable.List{Name: "n"}); err != nil || len(p.Locks[0].Waiters) != 0 {
			t.Errorf("list: %+v %v", p, err)
		}
		s.store.Stall()
		begin := time.Now()
		s.stop()
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("stopped after %v", took)
		}
	})
}

// What a snapshot and the log after it rebuild is what was there.
func TestSnapshotAndTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		disk.SetQuota(7 << 20)
		s := start(t, disk, "a", true)
		s.up(t)
		held := map[string]cell.Lease{}
		for i := range 45 {
			name := fmt.Sprintf("n%d", i)
			l, err := s.Acquire(t.Context(), cell.AcquireRequest{
				Names: []string{name}, TTL: time.Hour, Value: make([]byte, bounds.ValueMax),
			})
			if err != nil {
				t.Fatalf("acquire %s: %v", name, err)
			}
			held[name] = l
			time.Sleep(100 * time.Millisecond)
		}
		if s.Stats().Snapshots.Load() == 0 {
			t.Error("no snapshot was made although 40 % of the quota are used")
		}
		for name, l := range held {
			if l.Granted.Token%2 == 0 {
				delete(held, name)
				if err := s.Release(t.Context(), l.ID); err != nil {
					t.Errorf("release %s: %v", name, err)
				}
			}
		}
		s.crash()
		s = start(t, disk, "a", true)
		defer s.stop()
		s.up(t)
		st, err := s.Status(t.Context())
		if err != nil || st.Leases != len(held) || st.Sessions != len(held) {
			t.Errorf("status: %+v %v; %d leases were expected", st, err, len(held))
		}
		for name, l := range held {
			if _, err := s.RenewLease(t.Context(), l.ID, 0); err != nil {
				t.Errorf("%s is lost: %v", name, err)
			}
		}
	})
}

func TestStandbyTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		a.up(t)
		l := a.acquire(t, "n", 10*time.Second, 0)
		b := start(t, disk, "b", false)
		defer b.stop()
		time.Sleep(2 * activeTTL)
		if info := b.Info(); info.Active || info.ActiveLink != "a" || info.Role() != cell.RoleStandby {
			t.Fatalf("the standby says %+v, %s", info, info.Role())
		}
		if _, err := b.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"x"}}); reasonOf(err) != locktable.Unavailable {
			t.Fatalf("the standby answered: %v", err)
		}
		// A paused server is overtaken; when it goes on it finds out by itself.
		if _, err := a.RenewLease(t.Context(), l.ID, 0); err != nil {
			t.Fatal(err)
		}
		a.store.Stall()
		begin := time.Now()
		b.up(t)
		if took := time.Since(begin); took > activeTTL+2*time.Second {
			t.Errorf("take-over took %v", took)
		}
		if _, err := b.RenewLease(t.Context(), l.ID, 0); err != nil {
			t.Errorf("the lease is lost by a take-over: %v", err)
		}
		a.store.Resume()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := a.Acquire(ctx, cell.AcquireRequest{Names: []string{"x"}}); reasonOf(err) != locktable.Unavailable {
			t.Errorf("the deposed server answered: %v", err)
		}
		if st, err := a.Status(ctx); err != nil || st.Epoch != 0 || st.Role() != cell.RoleStandby {
			t.Errorf("the deposed server says %+v, %v", st.Info, err)
		}
		a.stop()
	})
}
