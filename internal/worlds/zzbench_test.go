package worlds

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/link"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

func TestZZBench(t *testing.T) {
	ck := clock.System()
	c := cell.New(cell.Options{Store: memstore.NewDisk().Store(memstore.Options{Clock: ck, Sole: true}), Node: store.Node{ID: [16]byte{1}}, Clock: ck, Name: "t", ActiveTTL: 3 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go c.Run(ctx)
	<-c.Ready()
	g := grpc.NewServer(link.ServerOptions()...)
	link.New(c, link.Options{Clock: ck}).Register(g)
	lis, _ := net.Listen("tcp", "127.0.0.1:0")
	go g.Serve(lis)
	cl, err := pawl.Dial(ctx, []string{lis.Addr().String()}, pawl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := os.Create("/tmp/sdk/cpu.prof")
	pprof.StartCPUProfile(f)
	for _, n := range []int{1, 16, 64, 256} {
		start := time.Now()
		var wg sync.WaitGroup
		var pairs [256]int
		for i := range n {
			wg.Go(func() {
				name := fmt.Sprint("n", i)
				for time.Since(start) < 2*time.Second {
					l, err := cl.Acquire(ctx, name)
					if err != nil {
						t.Error(err)
						return
					}
					if err := l.Release(ctx); err != nil {
						t.Error(err)
						return
					}
					pairs[i]++
				}
			})
		}
		wg.Wait()
		sum := 0
		for _, p := range pairs {
			sum += p
		}
		fmt.Println(n, "callers", float64(sum)/time.Since(start).Seconds(), "pairs/s")
	}
	pprof.StopCPUProfile()
	cl.Close()
}
