package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/pawltest"
)

func ExampleNewServer() {
	s := pawltest.NewServer()
	defer s.Stop()

	ctx := s.Context(context.Background())
	c, err := pawl.Dial(ctx, s.Servers(), pawl.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	l, err := c.Acquire(ctx, "orders/7")
	fmt.Println(l.Name(), err)
	// Output: orders/7 <nil>
}

// The test in the package's documentation.
func TestLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		c := s.Dial(t, pawl.Options{TTL: 2 * time.Second})
		l, err := c.Acquire(t.Context(), "orders/7")
		if err != nil {
			t.Fatal(err)
		}
		s.Cut()
		<-l.Context().Done()
		if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrLost) {
			t.Error(cause)
		}
	})
}

// Each fault does what it says, and no more.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		other := s.NewPath()
		a, b := s.Dial(t, pawl.Options{TTL: 2 * time.Second}), other.Dial(t, pawl.Options{TTL: 2 * time.Second})
		x, err := a.Acquire(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Acquire(t.Context(), "y")
		if err != nil {
			t.Fatal(err)
		}
		other.Cut()
		time.Sleep(3 * time.Second)
		if x.Context().Err() != nil || y.Context().Err() == nil {
			t.Error("the wrong path was cut")
		}
		other.Heal()
		s.Stop()
		s.Stop()
		if _, err := pawl.Dial(s.Context(t.Context()), s.Servers(), pawl.Options{}); !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("dial to a stopped server: %v", err)
		}
		s.Start()
		if n := s.Waiting(t, "x"); n != 0 {
			t.Errorf("%d wait", n)
		}
		y, err = b.Acquire(t.Context(), "y")
		if err != nil {
			t.Fatal(err)
		}
		if held, ok := s.Holder(t, "y"); !ok || held != y.Token() {
			t.Errorf("held under %v", held)
		}
	})
}
