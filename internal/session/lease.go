package session

import (
	"slices"
	"strconv"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
)

// Lease is one grant, as the machine knows it.
type Lease struct {
	Token guard.Token
	// Holds are its names, in the order in which they were asked for.
	Holds []Hold
	// RideThrough is how long after the last acknowledged renewal it may go on without an
	// answer; 0: to its deadline.
	RideThrough time.Duration
	// Of is the driver's own.
	Of any

	state leaseState
	// cause it is not held any more.
	cause *Cause
	// release is the request that is under way.
	release *Request
	// one is room for Holds, which mostly has one.
	one [1]Hold
}

// Hold is one name of a lease. Slot is 0 when the name is no semaphore.
type Hold struct {
	Name  string
	Slot  int
	Fence guard.Fence
}

type leaseState uint8

const (
	leaseHeld leaseState = iota
	leaseReleased
	leaseEnded
)

// end notes that a lease is over. It has one end.
func (m *Machine) end(l *Lease, state leaseState, why *Cause) {
	if l.state != leaseHeld {
		return
	}
	l.state, l.cause = state, why
	m.effect(Effect{Kind: EndLease, Lease: l, Cause: why})
}

// drop ends one lease that is lost.
func (m *Machine) drop(l *Lease, why *Cause) {
	delete(m.leases, l.Token)
	m.end(l, leaseEnded, why)
}

// over is why a lease that a caller asks about is not held.
func (l *Lease) over() *Cause {
	if l.cause == nil {
		return released
	}
	return l.cause
}

// holdsOf reads what was granted into holds, in the order of the names; nil when it is
// not what was asked for.
func holdsOf(holds []Hold, asked *AcquireSpec, g *linkpb.Granted, cell string) []Hold {
	if len(g.Fences) != len(asked.Names) {
		return nil
	}
	for _, name := range asked.Names {
		i := slices.IndexFunc(g.Fences, func(f *linkpb.Fence) bool { return f.Name == name })
		if i < 0 {
			return nil
		}
		f := g.Fences[i]
		token := guard.Token(f.Fence)
		if !token.Valid() || token > guard.Token(g.Token) || (f.Slot != 0) != (asked.Slots != 0) || int64(f.Slot) > int64(asked.Slots) {
			return nil
		}
		h := Hold{Name: name, Slot: int(f.Slot), Fence: guard.Fence{Resource: name, Token: token, Cell: cell}}
		if h.Slot != 0 {
			h.Fence.Resource += "\x1f" + strconv.Itoa(h.Slot)
		}
		holds = append(holds, h)
	}
	return holds
}
