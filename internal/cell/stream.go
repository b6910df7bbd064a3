package cell

import (
	"context"

	"github.com/pawlproject/pawl/internal/locktable"
)

// Stream is one client's stream as the cell sees it. Its answers go to the
// Receiver that it was attached with. Not to be used by several goroutines.
type Stream struct {
	cell       *Cell
	tenure     *tenure
	r          Receiver
	id         secretID
	session    locktable.ID
	generation uint64
	line       line
	identity   string
}

// Attach binds a stream to a session, a new one when the greeting names none.
// The first answer is Attached or Closed; when it is Closed the stream is over.
// It never blocks.
func (c *Cell) Attach(h Hello, r Receiver) *Stream {
	s := &Stream{cell: c, r: r, generation: h.Generation, identity: h.Identity}
	a := locktable.Attach{
		Ref: r, Generation: h.Generation, TTL: h.TTL, Label: h.Label, Identity: h.Identity,
		Held: h.Held, Wanted: h.Wanted, Cell: h.Cell, Highest: h.Highest,
	}
	if a.TTL == 0 {
		a.TTL = locktable.TTLDefault
	}
	switch {
	case len(h.Session) == 0:
		s.id = drawID()
		s.session = s.id.hash()
		a.New = s.session
	case copy(s.id[:], h.Session) != len(s.id) || len(h.Session) != len(s.id):
		r.Receive(0, locktable.Closed{Reason: locktable.Invalid, Message: "a session's id has 16 bytes"})
		return s
	default:
		s.session = s.id.hash()
		a.Session = s.session
	}
	c.mu.Lock()
	t := c.now
	if t != nil {
		s.tenure = t
		c.streams[s] = struct{}{}
	}
	c.mu.Unlock()
	if t == nil || !t.intake.add(a) {
		r.Receive(0, locktable.Closed{Reason: locktable.Unavailable, Message: notActive})
	}
	return s
}

// Session is the session's id, a capability.
func (s *Stream) Session() []byte { return s.id[:] }

// Submit takes in what a client said at once. It never blocks; when the tenure
// is over, the stream has been told.
func (s *Stream) Submit(m Message) {
	if s.tenure == nil {
		return
	}
	urgent := make([]locktable.Command, 0, 2+len(m.Releases)+len(m.Cancels)+len(m.Checks))
	urgent = append(urgent, locktable.Heard{
		Ref: s.r, Session: s.session, Generation: s.generation, Renewal: m.Renewal, Finished: m.Finished,
	})
	for _, x := range m.Releases {
		x.Ref, x.Session, x.Generation = s.r, s.session, s.generation
		urgent = append(urgent, x)
	}
	for _, x := range m.Cancels {
		x.Session, x.Generation = s.session, s.generation
		urgent = append(urgent, x)
	}
	for _, x := range m.Checks {
		x.Ref, x.Session, x.Generation = s.r, s.session, s.generation
		urgent = append(urgent, x)
	}
	for _, name := range m.Unobserve {
		urgent = append(urgent, locktable.Unobserve{Session: s.session, Generation: s.generation, Name: name})
	}
	for _, name := range m.Observe {
		urgent = append(urgent, locktable.Observe{Ref: s.r, Session: s.session, Generation: s.generation, Name: name})
	}
	if m.Close {
		urgent = append(urgent, locktable.Close{Session: s.session})
	}
	if !s.tenure.intake.add(urgent...) || len(m.Acquires) == 0 {
		return
	}
	for i := range m.Acquires {
		a := &m.Acquires[i]
		a.Ref, a.Session, a.Generation, a.Identity = s.r, s.session, s.generation, s.identity
	}
	refused, _ := s.tenure.intake.acquire(&s.line, m.Acquires)
	for i := range refused {
		s.r.Receive(refused[i].Number, locktable.Refused{
			Reason: locktable.Exhausted, Message: "too many acquires wait to be decided",
		})
	}
}

// Breathe waits while far more is to be decided than a turn takes, so that a
// client that sends faster than the cell decides is held up itself, and not
// everybody's renewals behind it. False: ctx has ended.
func (s *Stream) Breathe(ctx context.Context) bool {
	if s.tenure == nil {
		return true
	}
	for {
		relief := s.tenure.intake.relief()
		if relief == nil {
			return true
		}
		select {
		case <-relief:
		case <-ctx.Done():
			return false
		}
	}
}

// Detach says that the stream has ended. Its session lives on until its time is
// up.
func (s *Stream) Detach() {
	if s.tenure == nil {
		return
	}
	s.cell.mu.Lock()
	delete(s.cell.streams, s)
	s.cell.mu.Unlock()
	s.tenure.intake.add(locktable.Detach{Ref: s.r, Session: s.session, Generation: s.generation})
}

// Ticket writes the place in a queue of one of the stream's requests, for the
// client to show after a take-over. It may be called beside the other methods,
// and so may Place.
func (s *Stream) Ticket(number uint64, p locktable.Place) []byte {
	if s.tenure == nil {
		return nil
	}
	return sealTicket(s.tenure.secret, s.session, number, p)
}

// Place reads a ticket; zero when it is not one that the cell wrote for this
// request.
func (s *Stream) Place(number uint64, ticket []byte) locktable.Place {
	if s.tenure == nil {
		return locktable.Place{}
	}
	return openTicket(s.tenure.secret, s.session, number, ticket)
}
