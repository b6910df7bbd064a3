package session

// SpreadMin and spreadMax bound how far the numbers of unfinished requests lie apart
// before waiters are renumbered: the server remembers every number in between. A client
// with many requests has more room, so that to move them costs a part of what it costs
// to ask.
const (
	SpreadMin = 1024
	spreadMax = 32_000
)

// renumber moves long waiters to new numbers, with their ticket and so their
// place, before the server must remember too many numbers behind them.
//
// The old number stays unfinished until the server has answered under the new one.
// Otherwise:
//
//  1. The request waits as number 1, and is moved to 1025.
//  2. The message says "1025 replaces 1" and "all below 1025 is finished". The
//     server heeds the second part first, and forgets number 1 with its place.
//  3. Number 1025 stands at the end of the queue. Or number 1 was granted before
//     2: then nobody gives that lease back, and 1025 waits for it for ever.
func (m *Machine) renumber() {
	spread := min(max(m.spread, 4*uint64(len(m.requests))), spreadMax)
	if m.conn.state != connectionUp || m.next < m.renumberAt || m.next-m.lowest() < spread {
		return
	}
	// What cannot be moved, as a release, keeps the lowest number where it is.
	m.renumberAt = m.next + spread/4
	for _, n := range m.numbers() {
		if m.next-n < spread/2 {
			break
		}
		if m.next-m.low >= NumbersMax {
			// The rest follows when the first have been answered under their new numbers.
			m.renumberAt = m.next
			break
		}
		r := m.requests[n]
		if r.kind != acquires || !r.sent || r.ticket == nil || r.replaces != 0 {
			continue
		}
		delete(m.requests, n)
		r.replaces, m.replaced[n] = n, struct{}{}
		m.enter(r)
	}
}

// moved notes that the server knows a request by its present number alone.
func (m *Machine) moved(r *Request) {
	if r.replaces != 0 {
		delete(m.replaced, r.replaces)
		r.replaces = 0
	}
}

// cancelReplaced gives up what a request had asked for under its old number.
func (m *Machine) cancelReplaced(r *Request) {
	if r.replaces != 0 {
		m.cancel(r.replaces)
		m.moved(r)
	}
}
