package cell

import (
	"container/list"
	"context"
)

// reservation waits for room for urgent commands.
type reservation struct {
	weight int
	given  chan struct{} // closed when there is room, which is taken then
	// place is its own among those who wait, nil when it has been given room.
	place *list.Element
}

// reserve makes room for urgent commands of an identity, which addOf and renew
// take up, or waits for it. Who has no name is everybody, and has room. False: ctx has
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
	k := in.crowd(identity)
	if k.held.Len() == 0 && k.urgent < urgentMax {
		k.urgent += weight
		in.mu.Unlock()
		return true
	}
	r := &reservation{weight: weight, given: make(chan struct{})}
	r.place = k.held.PushBack(r)
	in.mu.Unlock()
	select {
	case <-r.given:
		return true
	case <-ctx.Done():
	}
	in.renounce(k, r)
	return false
}

// renounce takes a reservation back whose caller has gone. It does so at once
// wherever that stands: a crowd may go together.
func (in *intake) renounce(k *crowd, r *reservation) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.shut:
	case r.place != nil:
		k.held.Remove(r.place)
	default:
		k.ease(r.weight)
	}
}

// waive gives room back that nothing takes up.
func (in *intake) waive(identity string, weight int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.shut && identity != "" && weight > 0 {
		in.crowd(identity).ease(weight)
	}
}

// ease gives room back, and lets those have it who wait, in their turn.
func (k *crowd) ease(weight int) {
	k.urgent -= weight
	for k.urgent < urgentMax && k.held.Len() > 0 {
		r := k.held.Remove(k.held.Front()).(*reservation)
		k.urgent += r.weight
		r.admit()
	}
}

func (r *reservation) admit() {
	r.place = nil
	close(r.given)
}

// letGo ends the waiting of all, when the intake is shut.
func (k *crowd) letGo() {
	for k.held.Len() > 0 {
		k.held.Remove(k.held.Front()).(*reservation).admit()
	}
}
