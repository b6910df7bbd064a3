package pawl_test

import (
	"fmt"
	"time"
)

func ExampleClient_SetTTL() {
	ctx, c, stop := connect()
	defer stop()

	l, _ := c.Acquire(ctx, "orders/7")
	// A step that must not be interrupted: a network that is down for a while must
	// not cost us the lease.
	if err := c.SetTTL(ctx, 10*time.Minute); err != nil {
		return
	}
	fmt.Println(l.Remaining() > 9*time.Minute)
	// Afterwards others should not wait long for us when we die.
	if err := c.SetTTL(ctx, 10*time.Second); err != nil {
		return
	}
	fmt.Println(l.Remaining() < 10*time.Second)
	// Output:
	// true
	// true
}
