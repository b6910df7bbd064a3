package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/pawltest"
)

// connect starts a server in this process and connects to it. In a program it
// is pawl.Dial with the addresses of real servers.
func connect() (ctx context.Context, c *pawl.Client, stop func()) {
	s := pawltest.NewServer()
	ctx = s.Context(context.Background())
	c, err := pawl.Dial(ctx, s.Servers(), pawl.Options{Label: "billing"})
	if err != nil {
		panic(err)
	}
	return ctx, c, func() {
		_ = c.Close()
		s.Stop()
	}
}

func ExampleDial() {
	s := pawltest.NewServer()
	defer s.Stop()

	// For a real server: pawl.Dial(ctx, []string{"127.0.0.1:7420"}, …)
	c, err := pawl.Dial(s.Context(context.Background()), s.Servers(), pawl.Options{
		TTL:   10 * time.Second,
		Label: "billing",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("connected")
	fmt.Println(c.Close())
	// Output:
	// connected
	// <nil>
}

func ExampleClient_Acquire() {
	ctx, c, stop := connect()
	defer stop()

	l, err := c.Acquire(ctx, "orders/7") // waits in the queue until ctx ends
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Release(context.Background())
	fmt.Println(l.Name(), l.Token() > 0)
	// Output: orders/7 true
}

func ExampleClient_TryAcquire() {
	ctx, c, stop := connect()
	defer stop()

	first, _ := c.TryAcquire(ctx, "orders/7")
	_, err := c.TryAcquire(ctx, "orders/7")

	var held *pawl.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Label, held.Token == first.Token())
	}
	// Output: held by billing true
}

func ExampleClient_Do() {
	ctx, c, stop := connect()
	defer stop()

	err := c.Do(ctx, "orders/7", func(ctx context.Context, f guard.Fence) error {
		// ctx ends when the lease is in danger of another holder; f is what the
		// resource's guard wants to see.
		fmt.Println("working on", f.Resource)
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// working on orders/7
	// <nil>
}

func ExampleClient_Events() {
	_, c, stop := connect()
	defer stop()

	e := <-c.Events()
	fmt.Println(e.Kind)
	// Output: safe
}

func ExampleClient_Close() {
	ctx, c, stop := connect()
	defer stop()

	l, _ := c.Acquire(ctx, "orders/7")
	fmt.Println(c.Close()) // ends the session and releases all its leases
	fmt.Println(context.Cause(l.Context()))
	// Output:
	// <nil>
	// lease released
}

// ledger is a resource that remembers the highest token it was shown.
type ledger struct{ state guard.State }

func (g *ledger) Claim(_ context.Context, f guard.Fence) error {
	next, v := guard.Decide(guard.Monotonic, g.state, f.Mark())
	if err := v.Err(f.Resource, g.state, f.Mark()); err != nil {
		return err
	}
	g.state = next
	return nil
}

func ExampleClaim() {
	ctx, c, stop := connect()
	defer stop()
	var g ledger

	// acquire → claim, before anything is read that will be acted upon.
	l, err := c.Acquire(ctx, "ledger", pawl.Claim(&g))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.state.Seen == l.Token())
	// Output: true
}

func ExampleLabel() {
	ctx, c, stop := connect()
	defer stop()

	_, _ = c.Acquire(ctx, "orders/7", pawl.Label("nightly run"))
	_, err := c.TryAcquire(ctx, "orders/7")
	var held *pawl.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Label)
	}
	// Output: nightly run
}

func ExampleLease_Check() {
	ctx, c, stop := connect()
	defer stop()

	l, _ := c.Acquire(ctx, "orders/7")
	fmt.Println(l.Check(ctx)) // asks the server
	_ = l.Release(ctx)
	fmt.Println(errors.Is(l.Check(ctx), pawl.ErrReleased))
	// Output:
	// <nil>
	// true
}

func ExampleLease_Context() {
	ctx, c, stop := connect()
	defer stop()

	l, _ := c.Acquire(ctx, "orders/7")
	go func() { _ = l.Release(context.Background()) }()
	<-l.Context().Done() // pass it to the work: it ends with the lease
	fmt.Println(context.Cause(l.Context()))
	// Output: lease released
}

func ExampleLease_Fence() {
	ctx, c, stop := connect()
	defer stop()
	var g ledger

	l, _ := c.Acquire(ctx, "ledger")
	f := l.Fence()
	fmt.Println(f.Resource, g.Claim(ctx, f))

	late := f
	late.Token-- // an earlier holder, back from a long pause
	fmt.Println(errors.Is(g.Claim(ctx, late), guard.ErrStale))
	// Output:
	// ledger <nil>
	// true
}

func ExampleLease_Remaining() {
	ctx, c, stop := connect()
	defer stop()

	l, _ := c.Acquire(ctx, "orders/7")
	fmt.Println(l.Remaining() > 10*time.Second) // of a TTL of 15 s
	_ = l.Release(ctx)
	fmt.Println(l.Remaining())
	// Output:
	// true
	// 0s
}

func ExampleLease_Release() {
	ctx, c, stop := connect()
	defer stop()

	l, _ := c.Acquire(ctx, "orders/7")
	fmt.Println(l.Release(ctx))
	fmt.Println(l.Release(ctx)) // twice is fine
	// Output:
	// <nil>
	// <nil>
}

// A server that wants to know who asks: TLS, with the authorities that its
// certificate is verified with, and a credential.
func ExampleLoadTLS() {
	config, err := pawl.LoadTLS("ca.pem", "", "")
	if err != nil {
		panic(err)
	}
	c, err := pawl.Dial(context.Background(), []string{"locks.example:7420"}, pawl.Options{
		TLS: config, CredentialFile: "billing.credential",
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()
}
