package sdk

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A client on a full store keeps its leases and can list. A waiter
// for room in vain learns what it waited for.
func TestFullStoreKeepsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{listeners: map[string]*bufconn.Listener{}}
		disk := memstore.NewDisk()
		server, _ := p.start(t, disk, "only", 1)
		<-server.Ready()
		ctx := hook.With(t.Context(), hook.Parts{Clock: clock.Bubble(), Dial: p.dial})
		const ttl = 5 * time.Second
		var clients [2]*pawl.Client
		for i := range clients {
			c, err := pawl.Dial(ctx, []string{"only"}, pawl.Options{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			clients[i] = c
		}
		c := clients[0]
		kept, err := c.Campaign(ctx, "kept", []byte("me"))
		if err != nil {
			t.Fatal(err)
		}
		given, err := clients[1].Acquire(ctx, "given")
		if err != nil {
			t.Fatal(err)
		}
		// It knows of no trouble but who is before it.
		short, cancel := context.WithTimeout(ctx, time.Second)
		_, err = c.Acquire(short, "kept")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pawl.ErrExhausted) {
			t.Errorf("a wait behind somebody: %v", err)
		}

		disk.SetFull(true)
		released := make(chan error, 1)
		go func() { released <- given.Release(ctx) }()
		time.Sleep(time.Second)
		for range 5 {
			waiting, cancel := context.WithTimeout(ctx, ttl/2)
			_, err = c.Acquire(waiting, "more")
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, pawl.ErrExhausted) || !strings.Contains(err.Error(), "the store is full") {
				t.Errorf("a wait for room in the store: %v", err)
			}
			if _, err := c.TryAcquire(ctx, "more"); !errors.Is(err, pawl.ErrExhausted) || !strings.Contains(err.Error(), "the store is full") {
				t.Errorf("a try: %v", err)
			}
			if err := kept.Check(ctx); err != nil {
				t.Errorf("the lease that is kept: %v", err)
			}
			looking, cancel := context.WithTimeout(ctx, time.Second)
			for leader, err := range c.Observe(looking, "kept") {
				if err != nil || leader.Token != kept.Token() {
					t.Errorf("who is leader: %+v %v", leader, err)
				}
				break
			}
			cancel()
		}
		if err := <-released; !errors.Is(err, pawl.ErrUnavailable) && !errors.Is(err, pawl.ErrLost) {
			t.Errorf("a release that could not be written: %v", err)
		}

		// Waiters go on when there is room.
		go func() {
			time.Sleep(ttl)
			disk.SetFull(false)
		}()
		soon, cancel := context.WithTimeout(ctx, 10*ttl)
		defer cancel()
		for _, name := range []string{"more", "given"} {
			l, err := c.Acquire(soon, name)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := kept.Check(ctx); err != nil {
			t.Errorf("the lease that was kept: %v", err)
		}
	})
}
