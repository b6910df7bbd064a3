package server

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
	"github.com/pawlproject/pawl/internal/testwait"
)

// leasesHeld is how many leases BenchmarkTakeOver has a standby take over.
var leasesHeld = flag.Int("leases", 1_000_000, "leases of BenchmarkTakeOver")

// takeOverTTL is the active-ttl of its servers.
const takeOverTTL = 3 * time.Second

// BenchmarkTakeOver measures how long a standby reads when its turn has come, with the
// log followed and without:
//
//	go test ./cmd/pawl/internal/server -run '^$' -bench TakeOver -benchtime 3x
//
// ns/op is the time from when the active server is told to stop, and resigns, to the first
// grant of the next. table-MiB is what the standby adds to the heap; cpu-us/lease is the
// processor time of both servers for each lease that the active one grants and releases
// meanwhile: what it is less without following is what the standby spends.
func BenchmarkTakeOver(b *testing.B) {
	places := map[string]func(b *testing.B) func(node byte) store.Store{
		"memory": func(b *testing.B) func(byte) store.Store {
			disk := memstore.NewDisk()
			return func(byte) store.Store {
				s := disk.Store(memstore.Options{Clock: clock.System(), ActiveTTL: takeOverTTL})
				b.Cleanup(s.Close)
				return s
			}
		},
		"etcd": func(b *testing.B) func(byte) store.Store {
			c := etcdtest.Start(b, etcdtest.Options{Members: 3})
			return func(byte) store.Store {
				s, err := etcdstore.OpenExternal(b.Context(), etcdstore.ExternalOptions{
					Dir: b.TempDir(), Endpoints: c.Endpoints(), Prefix: "/pawl/", ActiveTTL: takeOverTTL, Clock: clock.System(),
				})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = s.Close() })
				return s
			}
		},
	}
	for _, place := range []string{"memory", "etcd"} {
		for _, follows := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/follows=%v", place, follows), func(b *testing.B) {
				takeOvers(b, places[place](b), follows)
			})
		}
	}
}

// blind is a store that cannot be followed.
type blind struct{ store.Store }

func (blind) Follow(context.Context, store.Position, func(uint64, []byte) error, func(uint64, []byte) error) error {
	return nil
}

// standing is a server of the benchmark.
type standing struct {
	*cell.Cell
	stop func()
}

func takeOvers(b *testing.B, newStore func(byte) store.Store, follows bool) {
	node := byte(0)
	start := func() *standing {
		node++
		st := newStore(node)
		if !follows {
			st = blind{st}
		}
		limits := bounds.DefaultLimits
		limits.Leases = max(limits.Leases, *leasesHeld+1000)
		c := cell.New(cell.Options{
			Store: st, Node: store.Node{ID: [16]byte{node}, Link: fmt.Sprint("node", node)}, Clock: clock.System(),
			Name: "bench", ActiveTTL: takeOverTTL, Limits: limits,
		})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		return &standing{c, func() {
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		}}
	}
	active := start()
	<-active.Ready()
	hold(b, active.Cell, *leasesHeld)
	var cpu float64
	for b.Loop() {
		b.StopTimer()
		next := start()
		settled(b, active.Cell, next.Cell, follows)
		spent := processorTime()
		leases := work(b, active.Cell, 3*time.Second)
		cpu = float64((processorTime() - spent).Microseconds()) / float64(leases)
		settled(b, active.Cell, next.Cell, follows)
		b.StartTimer()
		active.stop()
		<-next.Ready()
		if _, err := next.Acquire(b.Context(), cell.AcquireRequest{Names: []string{fmt.Sprint("after/", node)}, TTL: time.Hour}); err != nil {
			b.Fatal(err)
		}
		active = next
	}
	st, err := active.Status(b.Context())
	if err != nil || st.Leases < *leasesHeld {
		b.Errorf("%d leases are left, %v", st.Leases, err)
	}
	b.ReportMetric(cpu, "cpu-us/lease")
	if follows {
		before := steadyHeap(b)
		next := start()
		settled(b, active.Cell, next.Cell, follows)
		b.ReportMetric(float64(steadyHeap(b)-before)/(1<<20), "table-MiB")
		next.stop()
	}
	active.stop()
}

// settled waits until the standby has read all there is.
func settled(b *testing.B, active, standby *cell.Cell, follows bool) {
	b.Helper()
	until(b, "the standby", func() bool {
		st, err := active.Status(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		f, _, ok := standby.Following()
		return standby.Info().Role() == cell.RoleStandby && (!follows || ok && f.Batch+store.InFlight >= st.Batch)
	})
}

// counted counts what a stream is granted.
type counted struct {
	granted  atomic.Int64
	attached chan struct{}
	refused  chan locktable.Answer
}

func (c *counted) Receive(_ uint64, a locktable.Answer) {
	switch a.(type) {
	case locktable.Granted:
		c.granted.Add(1)
	case locktable.Attached:
		close(c.attached)
	case locktable.Refused, locktable.Closed:
		select {
		case c.refused <- a:
		default:
		}
	}
}

// hold takes very many leases, in a hundred sessions.
func hold(b *testing.B, c *cell.Cell, leases int) {
	b.Helper()
	const sessions, portion = 100, 100
	each := leases / sessions
	for i := range sessions {
		r := &counted{attached: make(chan struct{}), refused: make(chan locktable.Answer, 1)}
		s := c.Attach(b.Context(), cell.Hello{TTL: time.Hour, Label: "bench"}, r)
		<-r.attached
		for n := 0; n < each; n += portion {
			var m cell.Message
			for k := range min(portion, each-n) {
				m.Acquires = append(m.Acquires, locktable.Acquire{
					Number: uint64(n + k + 1), Names: []string{fmt.Sprintf("orders/%07d", i*each+n+k)},
				})
			}
			s.Submit(m)
			for r.granted.Load() < int64(n) {
				select {
				case a := <-r.refused:
					b.Fatalf("refused: %+v", a)
				case <-time.After(time.Millisecond):
				}
			}
		}
	}
	until(b, "all leases", func() bool {
		st, err := c.Status(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return st.Leases >= each*sessions
	})
}

// work has many callers acquire and release for a while; it returns how often.
func work(b *testing.B, c *cell.Cell, d time.Duration) int64 {
	b.Helper()
	const callers = 32
	var n atomic.Int64
	var all sync.WaitGroup
	until := time.Now().Add(d)
	for i := range callers {
		all.Go(func() {
			name := fmt.Sprint("busy/", i)
			for time.Now().Before(until) {
				l, err := c.Acquire(b.Context(), cell.AcquireRequest{Names: []string{name}, TTL: time.Hour})
				if err == nil {
					err = c.Release(b.Context(), l.ID)
				}
				if err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	all.Wait()
	return n.Load()
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// steadyHeap waits until the heap is the same for a while: a snapshot may be under way.
func steadyHeap(b *testing.B) (bytes int64) {
	b.Helper()
	steady := 0
	bytes = heap()
	until(b, "a steady heap", func() bool {
		now := heap()
		if steady++; max(now-bytes, bytes-now) > 4<<20 {
			steady = 0
		}
		bytes = now
		return steady == 5
	})
	return bytes
}

// until polls for what may take minutes with a million leases.
func until(b *testing.B, what string, cond func() bool) {
	b.Helper()
	testwait.Until(b, 10*time.Minute, what, cond)
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
