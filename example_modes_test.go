package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl"
)

func ExampleShared() {
	ctx, c, stop := connect()
	defer stop()

	one, _ := c.Acquire(ctx, "prices", pawl.Shared())
	two, _ := c.Acquire(ctx, "prices", pawl.Shared())
	_, err := c.TryAcquire(ctx, "prices") // a writer

	fmt.Println(one.Token() == two.Token())
	fmt.Println(one.Fence().Token == two.Fence().Token) // readers do not fence each other
	fmt.Println(errors.Is(err, pawl.ErrHeld))
	// Output:
	// false
	// true
	// true
}

func ExampleSlots() {
	ctx, c, stop := connect()
	defer stop()

	for range 2 {
		l, _ := c.Acquire(ctx, "gpu", pawl.Slots(2))
		fmt.Printf("slot %d, guarded as %q\n", l.Slot(), l.Fence().Resource)
	}
	_, err := c.TryAcquire(ctx, "gpu", pawl.Slots(2))
	fmt.Println(errors.Is(err, pawl.ErrHeld))
	// Output:
	// slot 1, guarded as "gpu\x1f1"
	// slot 2, guarded as "gpu\x1f2"
	// true
}

func ExampleNames() {
	ctx, c, stop := connect()
	defer stop()

	// A transfer between two accounts: both or none, in whichever order others
	// name them.
	l, _ := c.Acquire(ctx, "account/7", pawl.Names("account/3"))
	for _, name := range l.Names() {
		fmt.Println(name, l.Fence(name).Token == l.Token())
	}
	// Output:
	// account/7 true
	// account/3 true
}

func ExampleLease_Names() {
	ctx, c, stop := connect()
	defer stop()

	l, _ := c.Acquire(ctx, "b", pawl.Names("a", "b"))
	fmt.Println(l.Names())
	// Output: [b a]
}

func ExampleLease_Slot() {
	ctx, c, stop := connect()
	defer stop()

	l, _ := c.Acquire(ctx, "gpu", pawl.Slots(4))
	lock, _ := c.Acquire(ctx, "orders/7")
	fmt.Println(l.Slot(), lock.Slot())
	// Output: 1 0
}

func ExampleValue() {
	ctx, c, stop := connect()
	defer stop()

	_, _ = c.Acquire(ctx, "shard/3", pawl.Value([]byte("10.0.0.7:9000")))
	for holder := range c.Observe(ctx, "shard/3") {
		fmt.Printf("%s\n", holder.Value)
		break
	}
	// Output: 10.0.0.7:9000
}

func ExampleLockDelay() {
	ctx, c, stop := connect()
	defer stop()

	// The heater has no guard: should we crash, leave it alone for a while.
	l, _ := c.Acquire(ctx, "heater", pawl.LockDelay(30*time.Second))
	_ = l.Release(ctx) // in good order: free at once
	_, err := c.TryAcquire(ctx, "heater")
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Campaign() {
	ctx, c, stop := connect()
	defer stop()

	term, err := c.Campaign(ctx, "scheduler", []byte("10.0.0.7:9000")) // waits until it leads
	if err != nil {
		fmt.Println(err)
		return
	}
	// Lead until term.Context() ends, and show term.Fence() to what is guarded.
	fmt.Println(term.Context().Err(), term.Fence().Resource)
	fmt.Println(term.Release(context.Background())) // resigns
	// Output:
	// <nil> scheduler
	// <nil>
}

func ExampleClient_Observe() {
	ctx, c, stop := connect()
	defer stop()

	for leader, err := range c.Observe(ctx, "scheduler") {
		if err != nil {
			fmt.Println(err)
			return
		}
		if leader.Token != 0 {
			fmt.Printf("%s leads\n", leader.Value)
			break
		}
		fmt.Println("nobody leads")
		_, _ = c.Campaign(ctx, "scheduler", []byte("10.0.0.7:9000"))
	}
	// Output:
	// nobody leads
	// 10.0.0.7:9000 leads
}
