package sdk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/link"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
	"github.com/pawlproject/pawl/internal/testwait"
)

// tcpServer serves a fresh cell on a port of this machine until stop.
func tcpServer(t *testing.T, config *tls.Config) (address string, messages *atomic.Int64, stop func()) {
	t.Helper()
	ck := clock.System()
	c := cell.New(cell.Options{
		Store: memstore.NewDisk().Store(memstore.Options{Clock: ck, Sole: true}),
		Node:  store.Node{ID: [16]byte{1}}, Clock: ck, Name: "test", ActiveTTL: 3 * time.Second,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-c.Ready()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	messages = new(atomic.Int64)
	options := append(link.ServerOptions(), grpc.StreamInterceptor(
		func(srv any, st grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			return h(srv, countingStream{st, messages})
		}))
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	g := grpc.NewServer(options...)
	link.New(c, link.Options{Clock: ck}).Register(g)
	ended.Go(func() { _ = g.Serve(l) })
	return l.Addr().String(), messages, func() {
		cancel()
		g.Stop()
		ended.Wait()
	}
}

type countingStream struct {
	grpc.ServerStream
	messages *atomic.Int64
}

func (s countingStream) RecvMsg(m any) error {
	s.messages.Add(1)
	return s.ServerStream.RecvMsg(m)
}

func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A thousand acquires that fail, are cancelled or time out, over real sockets
// and timers, leave no goroutine and no file descriptor, with the client open
// and after it was closed.
func TestFailedAcquiresLeaveNoGoroutineAndNoFile(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	files := openFiles(t)
	address, _, stop := tcpServer(t, nil)
	dial := func() *pawl.Client {
		c, err := pawl.Dial(t.Context(), []string{address}, pawl.Options{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	holder, c := dial(), dial()
	if _, err := holder.Acquire(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	steady := func() (int, int) { return runtime.NumGoroutine(), openFiles(t) }
	goroutinesBefore, filesBefore := steady()
	for i := range 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%3)*time.Millisecond)
		var err error
		switch i % 3 {
		case 0:
			_, err = c.TryAcquire(t.Context(), "x")
		case 1:
			_, err = c.Acquire(ctx, "x")
		default:
			go cancel()
			_, err = c.Acquire(ctx, "x")
		}
		cancel()
		if err == nil {
			t.Fatalf("attempt %d succeeded", i)
		}
	}
	testwait.Until(t, 10*time.Second, "as many goroutines and files as before", func() bool {
		g, f := steady()
		return g <= goroutinesBefore && f <= filesBefore
	})
	for range 20 {
		if err := dial().Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []*pawl.Client{c, holder} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	stop()
	testwait.Until(t, 10*time.Second, "as many files as before the server", func() bool { return openFiles(t) <= files })
}

// Dialling what is not there leaves nothing either.
func TestFailedDialsLeaveNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	files := openFiles(t)
	nobody, _, stop := tcpServer(t, nil)
	stop()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{nobody, silent.Addr().String(), "no-such-host.invalid:7420", "127.0.0.1:1"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := pawl.Dial(ctx, []string{server}, pawl.Options{})
		cancel()
		if !errors.Is(err, pawl.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", server, err)
		}
	}
	silent.Close()
	testwait.Until(t, 10*time.Second, "as many files as before", func() bool { return openFiles(t) <= files })
}

// Sixty-four callers of one client share messages.
func TestCallersShareMessages(t *testing.T) {
	address, messages, stop := tcpServer(t, nil)
	defer stop()
	c, err := pawl.Dial(t.Context(), []string{address}, pawl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const callers, pairs = 64, 100
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range pairs {
				l, err := c.Acquire(t.Context(), fmt.Sprint("n", i))
				if err == nil {
					err = l.Release(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	const requests = callers * pairs * 2
	t.Logf("%d requests in %d messages", requests, messages.Load())
	if messages.Load() > requests/2 {
		t.Errorf("%d requests took %d messages", requests, messages.Load())
	}
}
