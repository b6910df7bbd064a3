package session

import (
	"cmp"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/bounds"
)

const (
	// splitMax bounds the requests of one message to the server. A message that has
	// reached about splitBytesMax bytes takes no further request, as a request has up
	// to 64 names and a value. Names to observe have the same bounds.
	splitMax      = 1024
	splitBytesMax = 128 << 10
)

// Split keeps a client's messages small enough for the server; nil: there is no rest.
func Split(m *linkpb.ClientMessage) (first, rest *linkpb.ClientMessage) {
	bytes := 0
	requests := fitting(m.Requests, &bytes, requestWeight)
	observe := fitting(m.Observe, &bytes, nameWeight)
	unobserve := fitting(m.Unobserve, &bytes, nameWeight)
	if requests+observe+unobserve == len(m.Requests)+len(m.Observe)+len(m.Unobserve) {
		return m, nil
	}
	rest = &linkpb.ClientMessage{
		FinishedBelow: m.FinishedBelow, Requests: m.Requests[requests:],
		Observe: m.Observe[observe:], Unobserve: m.Unobserve[unobserve:], Close: m.Close,
	}
	m.Requests, m.Observe, m.Unobserve, m.Close = m.Requests[:requests], m.Observe[:observe], m.Unobserve[:unobserve], false
	return m, rest
}

// fitting is how many of all a message takes that has so many bytes already.
func fitting[T any](all []T, bytes *int, weight func(T) int) (n int) {
	for n < len(all) && n < splitMax && *bytes < splitBytesMax {
		*bytes += weight(all[n])
		n++
	}
	return n
}

// Greeting is the messages of a greeting. The first has all but what does not fit.
func Greeting(h *linkpb.Hello) []*linkpb.ClientMessage {
	held, wanted := h.Held, h.Wanted
	named := func() *linkpb.Hello {
		x := &linkpb.Hello{Held: held[:min(len(held), bounds.NamedMax)]}
		x.Wanted = wanted[:min(len(wanted), bounds.NamedMax-len(x.Held))]
		held, wanted = held[len(x.Held):], wanted[len(x.Wanted):]
		return x
	}
	first := named()
	h.Held, h.Wanted, h.Further = first.Held, first.Wanted, uint32(len(held)+len(wanted))
	all := []*linkpb.ClientMessage{{Hello: h}}
	for len(held)+len(wanted) > 0 {
		all = append(all, &linkpb.ClientMessage{Hello: named()})
	}
	return all
}

// nameWeight is what a name costs on the wire, in bytes.
func nameWeight(name string) int { return 8 + len(name) }

// requestWeight is about what a request costs on the wire, in bytes.
func requestWeight(r *linkpb.Request) int {
	a := r.GetAcquire()
	n := 32 + len(a.GetLabel()) + len(a.GetTicket()) + len(a.GetValue())
	for _, name := range a.GetNames() {
		n += nameWeight(name)
	}
	return n
}

// Gather puts a message behind those that wait to be sent. What is to be observed and
// no longer to be observed stays in its order; all else becomes part of the last one.
func Gather(pending []*linkpb.ClientMessage, m *linkpb.ClientMessage) []*linkpb.ClientMessage {
	watches := func(m *linkpb.ClientMessage) bool { return len(m.Observe)+len(m.Unobserve) > 0 }
	n := len(pending)
	if n == 0 || watches(m) && watches(pending[n-1]) {
		return append(pending, m)
	}
	p := pending[n-1]
	p.FinishedBelow = max(p.FinishedBelow, m.FinishedBelow)
	p.Renewal = max(p.Renewal, m.Renewal)
	p.TtlNano = cmp.Or(m.TtlNano, p.TtlNano)
	p.Requests = append(p.Requests, m.Requests...)
	p.Observe = append(p.Observe, m.Observe...)
	p.Unobserve = append(p.Unobserve, m.Unobserve...)
	p.Close = p.Close || m.Close
	return pending
}
