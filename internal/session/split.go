package session

import (
	"cmp"

	"github.com/pawlproject/pawl/api/linkpb"
)

const (
	// splitMax bounds the requests of one message to the server, splitBytesMax about
	// their bytes: a request has up to 64 names and a value.
	splitMax      = 1024
	splitBytesMax = 1 << 20
)

// Split keeps a client's messages small enough for the server; nil: there is no rest.
func Split(m *linkpb.ClientMessage) (first, rest *linkpb.ClientMessage) {
	n, bytes := 0, 0
	for n < len(m.Requests) && n < splitMax && bytes < splitBytesMax {
		bytes += requestWeight(m.Requests[n])
		n++
	}
	if n == len(m.Requests) {
		return m, nil
	}
	rest = &linkpb.ClientMessage{FinishedBelow: m.FinishedBelow, Requests: m.Requests[n:], Close: m.Close}
	m.Requests, m.Close = m.Requests[:n], false
	return m, rest
}

// requestWeight is about what a request costs on the wire, in bytes.
func requestWeight(r *linkpb.Request) int {
	a := r.GetAcquire()
	n := 32 + len(a.GetLabel()) + len(a.GetTicket()) + len(a.GetValue())
	for _, name := range a.GetNames() {
		n += 8 + len(name)
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
