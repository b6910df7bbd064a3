package cell_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// changed is a store whose tenures do some things otherwise. A nil field is as before.
type changed struct {
	store.Store
	append   func() error
	confirm  func() error
	snapshot func() error
	usage    func() (store.Usage, error)
	// lose: the next Confirm is sent and never answered.
	lose atomic.Bool
}

func (c *changed) Claim(ctx context.Context, self store.Node, nonce store.Nonce, first func(uint64, store.Nonce) []byte) (store.Tenure, error) {
	t, err := c.Store.Claim(ctx, self, nonce, first)
	return changedTenure{t, c}, err
}

type changedTenure struct {
	store.Tenure
	by *changed
}

func (t changedTenure) Append(ctx context.Context, n uint64, batch []byte) error {
	if t.by.append != nil {
		if err := t.by.append(); err != nil {
			return err
		}
	}
	return t.Tenure.Append(ctx, n, batch)
}

func (t changedTenure) Confirm(ctx context.Context) error {
	if t.by.confirm != nil {
		if err := t.by.confirm(); err != nil {
			return err
		}
	}
	if t.by.lose.CompareAndSwap(true, false) {
		<-ctx.Done()
		return ctx.Err()
	}
	return t.Tenure.Confirm(ctx)
}

func (t changedTenure) Snapshot(ctx context.Context, upTo uint64, chunks iter.Seq[[]byte]) error {
	if t.by.snapshot != nil {
		if err := t.by.snapshot(); err != nil {
			return err
		}
	}
	return t.Tenure.Snapshot(ctx, upTo, chunks)
}

func (t changedTenure) Usage(ctx context.Context) (store.Usage, error) {
	if t.by.usage != nil {
		return t.by.usage()
	}
	return t.Tenure.Usage(ctx)
}

// start starts a cell on a changed store.
func (c *changed) start(t *testing.T) *server {
	t.Helper()
	k := clock.Bubble()
	s := &server{store: memstore.NewDisk().Store(memstore.Options{Clock: k, Sole: true}), end: make(chan error, 1)}
	c.Store = s.store
	s.Cell = cell.New(cell.Options{Store: c, Node: store.Node{ID: [16]byte{1}}, Clock: k, Name: "test", ActiveTTL: activeTTL})
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	go func() { s.end <- s.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-s.end; err != nil {
			t.Error(err)
		}
		s.store.Close()
	}
	s.up(t)
	return s
}

// A write or a Confirm that finds the tenure over is not tried again: it ends the
// tenure, although nothing else says so. After a roll-back or damage the server ends.
func TestTenureEndsOnStoreError(t *testing.T) {
	for _, over := range []error{store.ErrFenced, store.ErrRolledBack, store.ErrDamaged} {
		for _, what := range []string{"append", "confirm"} {
			t.Run(what+": "+over.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var failing atomic.Bool
					fail := func() error {
						if failing.Load() {
							return over
						}
						return nil
					}
					c := &changed{}
					if what == "append" {
						c.append = fail
					} else {
						c.confirm = fail
					}
					s := c.start(t)
					l := s.acquire(t, "n", time.Minute, 0)
					failing.Store(true)
					if what == "append" {
						go func() { _ = s.Release(t.Context(), l.ID) }()
					} else {
						// Alone: an append that succeeds confirms what is read with it.
						go func() { _, _ = s.List(t.Context(), locktable.List{}) }()
					}
					time.Sleep(time.Second)
					failing.Store(false)
					if over == store.ErrFenced {
						time.Sleep(activeTTL)
						if n := s.Stats().Tenures.Load(); n < 2 {
							t.Errorf("%d tenures were begun; the first is over", n)
						}
						s.stop()
						return
					}
					select {
					case err := <-s.end:
						if !errors.Is(err, over) {
							t.Errorf("the server ended by %v", err)
						}
					default:
						t.Error("the server goes on")
						s.cancel()
						<-s.end
					}
					s.store.Close()
				})
			})
		}
	}
}

// A server that has nothing to do asks its store nothing. It finds out that it was
// overtaken by the hint that its tenure is lost.
func TestIdleServerNoticesATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		defer a.stop()
		a.up(t)
		a.store.Stall()
		b := start(t, disk, "b", false)
		defer b.stop()
		b.up(t)
		a.store.Resume()
		time.Sleep(activeTTL)
		if info := a.Info(); info.Active || info.Role() != cell.RoleStandby {
			t.Errorf("the deposed server says %+v, %s", info, info.Role())
		}
	})
}

// A snapshot is made when the log has grown by so much, and after one that failed when
// it has grown by half of that.
func TestSnapshotsFollowTheLogsGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c := &changed{
			snapshot: func() error {
				if calls.Add(1) == 1 {
					return errors.New("refused")
				}
				return nil
			},
			usage: func() (store.Usage, error) { return store.Usage{}, nil },
		}
		s := c.start(t)
		defer s.stop()
		// until counts the acquires, each with a value as large as may be, until the next
		// snapshot is asked for.
		until := func(call int64) (n int) {
			for ; calls.Load() < call && n < 1000; n++ {
				l, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"n"}, TTL: time.Minute, Value: make([]byte, bounds.ValueMax)})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Release(t.Context(), l.ID); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			return n
		}
		first, again, next := until(1), until(2), until(3)
		if again < first/3 || again > first*2/3 {
			t.Errorf("a snapshot after %d acquires failed, and was tried again after %d more", first, again)
		}
		if next < first*2/3 || next > first*4/3 {
			t.Errorf("the first snapshot came after %d acquires, the one after it was made after %d more", first, next)
		}
	})
}

// How full the store is, is asked again and again. Where it does not say, what it said
// last counts.
func TestStoreFillIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var says atomic.Pointer[func() (store.Usage, error)]
		say := func(u store.Usage, err error) {
			f := func() (store.Usage, error) { return u, err }
			says.Store(&f)
			time.Sleep(activeTTL)
		}
		tight := store.Usage{Used: 9, Quota: 10}
		f := func() (store.Usage, error) { return store.Usage{}, nil }
		says.Store(&f)
		s := (&changed{usage: func() (store.Usage, error) { return (*says.Load())() }}).start(t)
		defer s.stop()
		for _, step := range []struct {
			what  string
			usage store.Usage
			err   error
			want  locktable.Reason
		}{
			{"roomy", store.Usage{}, nil, ""},
			{"tight", tight, nil, locktable.Exhausted},
			{"silent", store.Usage{}, errors.New("no answer"), locktable.Exhausted},
			{"roomy again", store.Usage{}, nil, ""},
		} {
			say(step.usage, step.err)
			_, err := s.Acquire(t.Context(), cell.AcquireRequest{Names: []string{step.what}, TTL: time.Hour})
			if step.want == "" && err != nil || step.want != "" && reasonOf(err) != step.want {
				t.Errorf("%s: an acquire is answered %v", step.what, err)
			}
		}
	})
}

// A Confirm that fails confirms nothing: what needs it is answered when one succeeds.
func TestFailedConfirmConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		c := &changed{confirm: func() error {
			if failing.Load() {
				return errors.New("no answer")
			}
			return nil
		}}
		s := c.start(t)
		defer s.stop()
		failing.Store(true)
		listed := make(chan error, 1)
		go func() {
			_, err := s.List(t.Context(), locktable.List{})
			listed <- err
		}()
		time.Sleep(activeTTL / 4)
		select {
		case err := <-listed:
			t.Errorf("answered %v while no Confirm succeeds", err)
			return
		default:
		}
		failing.Store(false)
		if err := <-listed; err != nil {
			t.Error(err)
		}
	})
}

// A Confirm whose answer is lost is not waited for without end: the next one confirms.
func TestLostConfirmIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &changed{}
		s := c.start(t)
		defer s.stop()
		c.lose.Store(true)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*activeTTL)
		defer cancel()
		if _, err := s.List(ctx, locktable.List{}); err != nil || time.Since(begun) > activeTTL+time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if c.lose.Load() {
			t.Error("no Confirm was lost")
		}
	})
}
