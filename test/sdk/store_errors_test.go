package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
	"github.com/pawlproject/pawl/internal/link"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// cast is servers of one cell in a bubble, and what their tests want of them.
type cast struct {
	pair
	t    *testing.T
	disk *memstore.Disk
}

func newCast(t *testing.T) *cast {
	return &cast{pair: pair{listeners: map[string]*bufconn.Listener{}}, t: t, disk: memstore.NewDisk()}
}

func (c *cast) client(ttl time.Duration, servers ...string) *pawl.Client {
	c.t.Helper()
	ctx := hook.With(context.Background(), hook.Parts{Clock: clock.Bubble(), Dial: c.dial})
	p, err := pawl.Dial(ctx, servers, pawl.Options{TTL: ttl})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = p.Close() })
	return p
}

func (c *cast) take(p *pawl.Client, name string) *pawl.Lease {
	c.t.Helper()
	l, err := p.Acquire(c.t.Context(), name)
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

func (c *cast) let(l *pawl.Lease) {
	c.t.Helper()
	if err := l.Release(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// later acquires in the background.
func (c *cast) later(p *pawl.Client, name string) <-chan *pawl.Lease {
	got := make(chan *pawl.Lease, 1)
	go func() {
		l, err := p.Acquire(c.t.Context(), name)
		if err != nil {
			c.t.Errorf("acquire %q: %v", name, err)
		}
		got <- l
	}()
	return got
}

// tolls stands before a server's front. It ends the stream on which the next
// renewal comes with a code of its choice, and counts messages.
type tolls struct {
	code             atomic.Uint32
	spoiled          atomic.Int32
	received, answer atomic.Int64
}

func (s *tolls) option() grpc.ServerOption {
	return grpc.ChainStreamInterceptor(func(srv any, st grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		w := &tolled{ServerStream: st, at: s}
		err := h(srv, w)
		if w.with != codes.OK {
			return status.Error(w.with, "spoiled on purpose")
		}
		return err
	})
}

type tolled struct {
	grpc.ServerStream
	at   *tolls
	with codes.Code
}

func (w *tolled) RecvMsg(m any) error {
	if err := w.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	w.at.received.Add(1)
	var c linkpb.ClientMessage
	if err := m.(*link.Undecoded).Peek(&c); err != nil {
		return err
	}
	if c.Renewal != 0 {
		if code := codes.Code(w.at.code.Swap(0)); code != codes.OK {
			w.with = code
			w.at.spoiled.Add(1)
			return io.EOF
		}
	}
	return nil
}

func (w *tolled) SendMsg(m any) error {
	w.at.answer.Add(1)
	return w.ServerStream.SendMsg(m)
}

// C12: the server answers one renewal with an error, any error, and then works again.
// Renewals go on, leases stay held, and the client's next acquires and the next
// client's succeed at once.
func TestOneErrorDoesNotEndRenewals(t *testing.T) {
	const ttl = 3 * time.Second
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := newCast(t), &tolls{}
				i := c.launch(t, c.disk, "one", 1, clock.Bubble(), s.option())
				<-i.cell.Ready()
				a := c.client(ttl, "one")
				l := c.take(a, "x")
				for range 3 {
					s.code.Store(uint32(code))
					time.Sleep(ttl)
				}
				if n := s.spoiled.Load(); n != 3 {
					t.Fatalf("%d renewals were spoiled", n)
				}
				if err := l.Check(t.Context()); err != nil || l.Context().Err() != nil {
					t.Errorf("the lease: %v, %v", err, context.Cause(l.Context()))
				}
				s.code.Store(uint32(code))
				time.Sleep(ttl / 4)
				begun := time.Now()
				c.let(c.take(a, "y"))
				c.let(c.take(c.client(ttl, "one"), "z"))
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("what came after it took %v", took)
				}
			})
		})
	}
}

// A server that answers every renewal with an error: the holder knows in time, and
// so do callers.
func TestPersistentErrorsAreReported(t *testing.T) {
	const ttl = 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c, s := newCast(t), &tolls{}
		i := c.launch(t, c.disk, "one", 1, clock.Bubble(), s.option())
		<-i.cell.Ready()
		a := c.client(ttl, "one")
		l := c.take(a, "x")
		i.crash()
		begun := time.Now()
		<-l.Context().Done()
		if d := time.Since(begun); d > ttl || !errors.Is(context.Cause(l.Context()), pawl.ErrLost) {
			t.Errorf("after %v: %v", d, context.Cause(l.Context()))
		}
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		if _, err := a.Acquire(ctx, "y"); !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("acquire: %v", err)
		}
	})
}

// C87: ten thousand acquires are given up while the store takes no write. They were
// never granted: they neither block the next grant, nor hold anything, nor make a token
// repeat.
func TestAbandonedAcquiresOnBlockedStoreLeaveNothing(t *testing.T) {
	const ttl, callers, each = 10 * time.Second, 20, 500
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t)
		i := c.launch(t, c.disk, "one", 1, clock.Bubble())
		<-i.cell.Ready()
		a := c.client(ttl, "one")
		l := c.take(a, "before")
		last := l.Token()
		c.let(l)
		for round := range 2 {
			i.store.Plan(func(x kvlog.Txn) faulty.Fault {
				if x.Writes() {
					return faulty.Fault{Refuse: errors.New("read-only file system")}
				}
				return faulty.Fault{}
			})
			var granted atomic.Int64
			var all sync.WaitGroup
			for n := range callers {
				all.Go(func() {
					for k := range each {
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
						l, err := a.TryAcquire(ctx, fmt.Sprintf("name/%d", (n+k)%50))
						cancel()
						if (l == nil) == (err == nil) {
							t.Errorf("%v, %v", l, err)
						}
						if l != nil {
							granted.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := granted.Load(); n != 0 {
				t.Fatalf("round %d: %d were granted by a store that takes nothing", round, n)
			}
			i.store.Plan(nil)
			begun := time.Now()
			for n := range 50 {
				l := c.take(a, fmt.Sprintf("name/%d", n))
				if l.Token() <= last {
					t.Errorf("round %d: token %d after %d", round, l.Token(), last)
				}
				last = l.Token()
				c.let(l)
			}
			if d := time.Since(begun); d > 2*activeTTL+5*time.Second {
				t.Errorf("round %d: the next grants took %v", round, d)
			}
			st, err := i.link.Status(t.Context(), &linkpb.StatusRequest{})
			if err != nil || st.Leases != 0 || st.Waiters != 0 || st.Sessions != 1 {
				t.Errorf("round %d: left over: %v %v", round, st, err)
			}
		}
	})
}
