package cell

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Waiters for room get it in their turn, also when some of them give up:
// the first, the last, or every second one between.
func TestCancelledReservationsKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake()
		if !in.reserve(t.Context(), "many", urgentMax) {
			t.Fatal("no room in an empty intake")
		}
		const n = 1001
		let := make(chan int, n)
		leave := make([]context.CancelFunc, n)
		for i := range n {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leave[i] = cancel
			go func() {
				if in.reserve(ctx, "many", urgentMax) {
					let <- i
				}
			}()
			synctest.Wait()
		}
		for i := 0; i < n; i += 2 {
			leave[i]()
		}
		synctest.Wait()
		for want := 1; want < n; want += 2 {
			in.unreserve("many", urgentMax)
			synctest.Wait()
			select {
			case got := <-let:
				if got != want {
					t.Fatalf("%d got room in the turn of %d", got, want)
				}
			default:
				t.Fatalf("nobody got room in the turn of %d", want)
			}
		}
		in.unreserve("many", urgentMax)
		if k := in.identities["many"]; k.urgent != 0 || k.reservations.Len() != 0 {
			t.Errorf("all are gone, and %d weigh, %d wait", k.urgent, k.reservations.Len())
		}
	})
}

// A waiter that gives up just when it is given room gives it back.
func TestRoomGivenToCancelledWaiterIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake()
		in.reserve(t.Context(), "many", urgentMax)
		r := &reservation{weight: 7, given: make(chan struct{})}
		k := in.identities["many"]
		r.place = k.reservations.PushBack(r)
		in.unreserve("many", urgentMax)
		<-r.given
		in.cancelReservation(k, r)
		if k.urgent != 0 || k.reservations.Len() != 0 {
			t.Errorf("%d weigh, %d wait", k.urgent, k.reservations.Len())
		}
		in.reserve(t.Context(), "many", urgentMax)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if in.reserve(ctx, "many", 1) {
			t.Error("let in over what there is room for")
		}
		in.close()
		in.cancelReservation(k, r)
	})
}
