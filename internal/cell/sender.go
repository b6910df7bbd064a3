package cell

import (
	"cmp"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Sender is the stream that commands come from: what each of them carries.
type Sender struct {
	// Ref gets the answers.
	Ref locktable.Ref
	// Session is the hash of the session's id, Generation that of the stream, from 1.
	Session    locktable.ID
	Generation uint64
	// Identity of the caller; empty where callers have none.
	Identity string
}

// Attach is the command of a greeting; opens: it opens the sender's session.
func (s Sender) Attach(h *Hello, opens bool) locktable.Attach {
	a := locktable.Attach{
		Ref: s.Ref, Generation: s.Generation, TTL: h.TTL, Label: h.Label, Identity: s.Identity,
		Held: h.Held, Wanted: h.Wanted, Next: h.Next, Cell: h.Cell, Highest: h.Highest, Riding: h.Riding,
	}
	if opens {
		a.New, a.TTL = s.Session, cmp.Or(a.TTL, bounds.TTLDefault)
	} else {
		a.Session = s.Session
	}
	return a
}

// Heard is what every message is: a sign of life, perhaps a renewal.
func (s Sender) Heard(m *Message) locktable.Heard {
	return locktable.Heard{
		Ref: s.Ref, Session: s.Session, Generation: s.Generation, Renewal: m.Renewal, TTL: m.TTL, Finished: m.finished(),
	}
}

// Urgent are the commands of a message that never wait behind acquires, in their
// order.
func (s Sender) Urgent(m *Message) []locktable.Command {
	urgent := make([]locktable.Command, 0, 2+len(m.Releases)+len(m.Cancels)+len(m.Checks)+len(m.Unobserve)+len(m.Observe))
	urgent = append(urgent, s.Heard(m))
	for _, x := range m.Releases {
		x.Ref, x.Session, x.Generation = s.Ref, s.Session, s.Generation
		urgent = append(urgent, x)
	}
	for _, x := range m.Cancels {
		x.Session, x.Generation = s.Session, s.Generation
		urgent = append(urgent, x)
	}
	for _, x := range m.Checks {
		x.Ref, x.Session, x.Generation = s.Ref, s.Session, s.Generation
		urgent = append(urgent, x)
	}
	for _, name := range m.Unobserve {
		urgent = append(urgent, locktable.Unobserve{Session: s.Session, Generation: s.Generation, Name: name})
	}
	for _, name := range m.Observe {
		urgent = append(urgent, locktable.Observe{Ref: s.Ref, Session: s.Session, Generation: s.Generation, Name: name})
	}
	if m.Close {
		urgent = append(urgent, locktable.Close{Session: s.Session, Identity: s.Identity})
	}
	return urgent
}

// Acquires fills in the stream's fields of the message's acquires and returns them.
func (s Sender) Acquires(m *Message) []locktable.Acquire {
	for i := range m.Acquires {
		a := &m.Acquires[i]
		a.Ref, a.Session, a.Generation, a.Identity = s.Ref, s.Session, s.Generation, s.Identity
	}
	return m.Acquires
}

// finished is the number below which the table may forget requests before it has
// decided this message's acquires. A request that one of them replaces must be kept
// until then, since its place, or its lease, is taken from it.
func (m *Message) finished() uint64 {
	n := m.Finished
	for i := range m.Acquires {
		if old := m.Acquires[i].Replaces; old != 0 {
			n = min(n, old)
		}
	}
	return n
}
