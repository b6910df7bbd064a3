package pawl_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
)

func ExampleRideThrough() {
	ctx, c, stop := connect()
	defer stop()
	var g ledger

	l, err := c.Acquire(ctx, "ledger", pawl.Claim(&g), pawl.RideThrough(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.Riding()) // not while a server answers
	fmt.Println(l.RideLeft() > 59*time.Minute)
	// Output:
	// false
	// true
}

func ExampleClaims() {
	ctx, c, stop := connect()
	defer stop()
	var g ledger

	// The caller claims by itself: here in the transaction in which it works.
	l, err := c.Acquire(ctx, "ledger", pawl.Claims(), pawl.RideThrough(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Claim(ctx, l.Fence()))
	// Output: <nil>
}

func ExampleLease_Overtaken() {
	ctx, c, stop := connect()
	defer stop()
	var g ledger

	l, _ := c.Acquire(ctx, "ledger", pawl.Claim(&g), pawl.RideThrough(time.Hour))
	// A successor has claimed: the next write is refused, and the lease is over.
	g.state.Seen = l.Token() + 1
	if err := g.Claim(ctx, l.Fence()); l.Overtaken(err) {
		fmt.Println(context.Cause(l.Context()) != nil)
	}
	// One that is unknown says nothing.
	fmt.Println(l.Overtaken(guard.ErrUnknown))
	// Output:
	// true
	// false
}
