package cell_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// slowStore takes a while to say who is active, and counts who asks.
type slowStore struct {
	store.Store
	asked atomic.Int32
}

func (s *slowStore) Active(ctx context.Context) (store.Node, error) {
	s.asked.Add(1)
	select {
	case <-time.After(time.Second): // the bubble's
		return store.Node{ID: [16]byte{9}, Link: "there"}, nil
	case <-ctx.Done():
		return store.Node{}, ctx.Err()
	}
}

// A standby that is asked for its state does not ask the store each time.
func TestStandbyQueriesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := clock.Bubble()
		s := &slowStore{Store: memstore.NewDisk().Store(memstore.Options{Clock: k})}
		c := cell.New(cell.Options{Store: s, Clock: k, Name: "test", ActiveTTL: activeTTL})
		const n = 100
		got := make(chan string, n)
		for range n {
			go func() {
				st, err := c.Status(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- st.ActiveLink
			}()
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		synctest.Wait()
		if _, err := c.Status(gone); err != nil {
			t.Error(err)
		}
		for range n {
			if link := <-got; link != "there" {
				t.Errorf("the active server is at %q", link)
			}
		}
		if asked := s.asked.Load(); asked != 1 {
			t.Errorf("the store was asked %d times", asked)
		}
		if st, err := c.Status(t.Context()); err != nil || st.ActiveLink != "there" || s.asked.Load() != 2 {
			t.Errorf("later: %v, %v, asked %d times", st, err, s.asked.Load())
		}
	})
}

// silentStore names an active server until it falls silent. Nobody gets a tenure.
type silentStore struct {
	store.Store
	silent atomic.Bool
}

func (s *silentStore) Active(context.Context) (store.Node, error) {
	if s.silent.Load() {
		return store.Node{}, errors.New("no answer")
	}
	return store.Node{ID: [16]byte{9}, Link: "there"}, nil
}

func (s *silentStore) Claim(ctx context.Context, _ store.Node, _ store.Nonce, _ func(uint64, store.Nonce) []byte) (store.Tenure, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A standby whose store has said nothing for active-ttl sends nobody to the server that
// was active: that one has ended its tenure.
func TestStandbyOfASilentStoreKnowsNoActiveServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := clock.Bubble()
		s := &silentStore{Store: memstore.NewDisk().Store(memstore.Options{Clock: k})}
		c := cell.New(cell.Options{Store: s, Clock: k, Name: "test", ActiveTTL: activeTTL})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Run(ctx)
		}()
		defer func() {
			cancel()
			<-ended
		}()
		time.Sleep(activeTTL)
		if i := c.Info(); i.ActiveLink != "there" || i.Role() != cell.RoleStandby {
			t.Errorf("while the store answers: %q, %v", i.ActiveLink, i.Role())
		}
		s.silent.Store(true)
		time.Sleep(activeTTL / 4)
		if i := c.Info(); i.ActiveLink != "there" {
			t.Errorf("one missing answer counts: %q", i.ActiveLink)
		}
		time.Sleep(2 * activeTTL)
		if i := c.Info(); i.ActiveLink != "" || i.Role() == cell.RoleStandby {
			t.Errorf("when it is silent for long: %q, %v", i.ActiveLink, i.Role())
		}
	})
}
