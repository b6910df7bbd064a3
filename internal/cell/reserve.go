package cell

import (
	"container/list"
	"context"
)

// reservation waits for room for urgent commands.
type reservation struct {
	weight int
	given  chan struct{} // closed when there is room, which is taken then
	// place is its place in the queue; nil when it has been given room.
	place *list.Element
}

// reserve reserves room for urgent commands of an identity, or waits for room; addOf
// and renew use it. Anonymous callers always have room. It returns false when ctx has
// ended.
func (in *intake) reserve(ctx context.Context, identity string, weight int) bool {
	if identity == "" || weight == 0 {
		return true
	}
	in.mu.Lock()
	if in.shut {
		in.mu.Unlock()
		return true
	}
	k := in.queueOf(identity)
	if k.reservations.Len() == 0 && k.urgent < urgentMax {
		k.urgent += weight
		in.mu.Unlock()
		return true
	}
	r := &reservation{weight: weight, given: make(chan struct{})}
	r.place = k.reservations.PushBack(r)
	in.mu.Unlock()
	select {
	case <-r.given:
		return true
	case <-ctx.Done():
	}
	in.cancelReservation(k, r)
	return false
}

// cancelReservation takes back a reservation whose caller has gone. It takes the same
// time at every place of the queue, as very many callers may go at once.
func (in *intake) cancelReservation(k *identityQueue, r *reservation) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.shut:
	case r.place != nil:
		k.reservations.Remove(r.place)
	default:
		k.free(r.weight)
	}
}

// unreserve gives back reserved room that is not used.
func (in *intake) unreserve(identity string, weight int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.shut && identity != "" && weight > 0 {
		in.queueOf(identity).free(weight)
	}
}

// free gives room back, and grants it to the waiters, in their turn.
func (k *identityQueue) free(weight int) {
	k.urgent -= weight
	for k.urgent < urgentMax && k.reservations.Len() > 0 {
		r := k.reservations.Remove(k.reservations.Front()).(*reservation)
		k.urgent += r.weight
		r.grant()
	}
}

func (r *reservation) grant() {
	r.place = nil
	close(r.given)
}

// grantAll ends the waiting of all, when the intake is shut.
func (k *identityQueue) grantAll() {
	for k.reservations.Len() > 0 {
		k.reservations.Remove(k.reservations.Front()).(*reservation).grant()
	}
}
