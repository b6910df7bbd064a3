package pawl_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/pawltest"
)

// busy has a client use up numbers, so that what it waits for is renumbered.
func busy(t *testing.T, c *pawl.Client) {
	t.Helper()
	for i := range 600 {
		if err := take(t, c, fmt.Sprint("busy", i)).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A waiter whose client goes on asking for other things keeps its place.
func TestRenumberedWaiterKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		holder, first, second := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		l := take(t, holder, "x")
		before := later(t, first, "x")
		synctest.Wait()
		after := later(t, second, "x")
		synctest.Wait()
		busy(t, first)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-before:
		case <-after:
			t.Error("the later waiter was granted first")
		}
	})
}

// Waiters are renumbered while their leases are on the way: each is granted in the
// end, and no lease is left with nobody.
func TestWaiterRenumberedWhileItIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		holder, waiter := s.Dial(t, pawl.Options{TTL: ttl}), s.Dial(t, pawl.Options{TTL: ttl})
		const names = 32
		for range 20 {
			var held [names]*pawl.Lease
			var got [names]<-chan *pawl.Lease
			for i := range names {
				held[i] = take(t, holder, fmt.Sprint("x", i))
			}
			for i := range names {
				got[i] = later(t, waiter, fmt.Sprint("x", i))
			}
			synctest.Wait()
			var all sync.WaitGroup
			all.Go(func() { busy(t, waiter) })
			for i := range names {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 40 * time.Microsecond)
					if err := held[i].Release(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			time.Sleep(time.Second)
			for i := range names {
				select {
				case l := <-got[i]:
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
					}
				default:
					token, _ := s.Holder(t, fmt.Sprint("x", i))
					t.Fatalf("x%d is waited for, and held under token %d", i, token)
				}
			}
		}
	})
}
