package sdk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
	"github.com/pawlproject/pawl/internal/link"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

const activeTTL = time.Second

// pair is two servers on one store, in one bubble, and the way to them.
type pair struct {
	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
	dialled   []string
}

// start adds a server; crash ends it without a word to its store.
func (p *pair) start(t *testing.T, disk *memstore.Disk, name string, id byte) (c *cell.Cell, crash func()) {
	i := p.launch(t, disk, name, id, clock.Bubble())
	return i.cell, i.crash
}

// instance is one of the servers.
type instance struct {
	cell  *cell.Cell
	link  *link.Server
	store *memstore.Store
	crash func()
	// stop ends it in good order: first its tenure, as the program does.
	stop func()
}

// launch is start with a clock of the server's own and something before its front.
func (p *pair) launch(t *testing.T, disk *memstore.Disk, name string, id byte, ck clock.Clock, before ...grpc.ServerOption) instance {
	st := disk.Store(memstore.Options{Clock: ck, ActiveTTL: activeTTL})
	c := cell.New(cell.Options{
		Store: st, Node: store.Node{ID: [16]byte{id}, Link: name}, Clock: ck, Name: "test", ActiveTTL: activeTTL,
	})
	ctx, cancel := context.WithCancel(context.Background())
	g := grpc.NewServer(append(link.ServerOptions(), before...)...)
	front := link.New(c, link.Options{Clock: ck})
	front.Register(g)
	l := bufconn.Listen(1 << 20)
	p.mu.Lock()
	p.listeners[name] = l
	p.mu.Unlock()
	var ended sync.WaitGroup
	ran := make(chan struct{})
	ended.Go(func() {
		defer close(ran)
		_ = c.Run(ctx)
	})
	ended.Go(func() { _ = g.Serve(l) })
	var once sync.Once
	end := func(first, then func()) {
		once.Do(func() {
			first()
			p.mu.Lock()
			delete(p.listeners, name)
			p.mu.Unlock()
			then()
			g.Stop()
			cancel()
			<-ran
			ended.Wait()
		})
	}
	crash := func() { end(func() {}, st.Crash) }
	stop := func() {
		end(func() {
			cancel()
			<-ran
		}, st.Close)
	}
	t.Cleanup(crash)
	return instance{c, front, st, crash, stop}
}

func (p *pair) dial(ctx context.Context, server string) (net.Conn, error) {
	p.mu.Lock()
	l := p.listeners[server]
	p.dialled = append(p.dialled, server)
	p.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	return l.DialContext(ctx)
}

// The client that knows both servers is sent to the active one; when that dies
// its lease and its waiter live on at the other.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{listeners: map[string]*bufconn.Listener{}}
		disk := memstore.NewDisk()
		first, crash := p.start(t, disk, "first", 1)
		<-first.Ready()
		second, _ := p.start(t, disk, "second", 2)
		time.Sleep(activeTTL)

		ctx := hook.With(t.Context(), hook.Parts{Clock: clock.Bubble(), Dial: p.dial})
		dial := func() *pawl.Client {
			c, err := pawl.Dial(ctx, []string{"second", "first"}, pawl.Options{TTL: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		a, b := dial(), dial()
		p.mu.Lock()
		if d := fmt.Sprint(p.dialled); d != "[second first second first]" {
			t.Errorf("dialled %v", d)
		}
		p.mu.Unlock()

		l, err := a.Acquire(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *pawl.Lease, 1)
		go func() {
			l, err := b.Acquire(ctx, "x")
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		synctest.Wait()
		crash()
		<-second.Ready()
		time.Sleep(time.Second)
		if err := l.Check(ctx); err != nil {
			t.Fatalf("after the take-over: %v", err)
		}
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		next := <-got
		if next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
	})
}

// C62: a hand-over costs the same whether two wait for the name or two hundred:
// one batch in the store, and a word to nobody but the two that it concerns.
func TestReleaseWakesOneWaiter(t *testing.T) {
	cost := func(t *testing.T, waiting int) (perTurn string) {
		synctest.Test(t, func(t *testing.T) {
			c, s := newCast(t), &tolls{}
			i := c.launch(t, c.disk, "one", 1, clock.Bubble(), s.option())
			<-i.cell.Ready()
			var writes atomic.Int64
			first := c.client(time.Hour, "one")
			l := c.take(first, "x")
			var queue []<-chan *pawl.Lease
			for range waiting {
				p, got := c.client(time.Hour, "one"), make(chan *pawl.Lease, 1)
				go func() {
					l, _ := p.Acquire(t.Context(), "x") // those left over end with the test
					got <- l
				}()
				queue = append(queue, got)
				synctest.Wait()
			}
			i.store.Plan(func(x kvlog.Txn) faulty.Fault {
				if x.Writes() {
					writes.Add(1)
				}
				return faulty.Fault{}
			})
			// In the time of one turn the server gives no sign of life by itself.
			const turns = 2
			batches, received, answers := i.cell.Stats().Batches.Load(), s.received.Load(), s.answer.Load()
			for n := range turns {
				c.let(l)
				l = <-queue[n]
				synctest.Wait()
			}
			perTurn = fmt.Sprintf("%d batches, %d writes, %d messages in, %d out", (i.cell.Stats().Batches.Load()-batches)/turns,
				writes.Load()/turns, (s.received.Load()-received)/turns, (s.answer.Load()-answers)/turns)
			if n := i.cell.Stats().Batches.Load() - batches; n > 2*turns {
				t.Errorf("%d batches for %d hand-overs", n, turns)
			}
			if n := s.answer.Load() - answers; n > 3*turns {
				t.Errorf("%d messages to clients for %d hand-overs", n, turns)
			}
		})
		return perTurn
	}
	few, many := cost(t, 3), cost(t, 200)
	if few != many {
		t.Errorf("a hand-over with 3 waiting costs %s; with 200 %s", few, many)
	}
	t.Log(many)
}
