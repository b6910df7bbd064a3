package cell

import (
	"cmp"
	"context"
	"time"

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
	// ttl is what the client asked for last, as far as it is known.
	ttl time.Duration
	// reserved is the room that Breathe found and Submit did not take up yet.
	reserved int
}

// Attach binds a stream to a session, a new one when the greeting names none.
// The first answer is Attached or Closed; when it is Closed the stream is over.
// It waits, until ctx ends, while too much that its identity sent is to be decided.
func (c *Cell) Attach(ctx context.Context, h Hello, r Receiver) *Stream {
	s := &Stream{
		cell: c, r: r, generation: h.Generation, ttl: h.TTL,
		identity: h.Identity, line: line{identity: h.Identity, limit: h.QueuedMax},
	}
	a := locktable.Attach{
		Ref: r, Generation: h.Generation, TTL: h.TTL, Label: h.Label, Identity: h.Identity,
		Held: h.Held, Wanted: h.Wanted, Next: h.Next, Cell: h.Cell, Highest: h.Highest,
	}
	switch {
	case len(h.Session) == 0:
		a.TTL = cmp.Or(a.TTL, locktable.TTLDefault)
		s.ttl = a.TTL
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
	weight := 1 + len(h.Held) + len(h.Wanted)
	if t == nil || !t.intake.reserve(ctx, h.Identity, weight) || !t.intake.addOf(h.Identity, weight, a) {
		r.Receive(0, locktable.Closed{Reason: locktable.Unavailable, Message: NotActive})
	}
	return s
}

// Session is the session's id, a capability.
func (s *Stream) Session() []byte { return s.id[:] }

// Handle is the session's public name.
func (s *Stream) Handle() string {
	if s.tenure == nil {
		return ""
	}
	return locktable.Handle(s.tenure.secret, s.session)
}

// Submit takes in what a client said at once. It never blocks; when the tenure
// is over, the stream has been told.
func (s *Stream) Submit(m Message) {
	if s.tenure == nil {
		return
	}
	heard := locktable.Heard{
		Ref: s.r, Session: s.session, Generation: s.generation, Renewal: m.Renewal, TTL: m.TTL, Finished: m.finished(),
	}
	if m.TTL != 0 {
		s.ttl = m.TTL
	}
	weight := s.reserved
	s.reserved = 0
	if s.ttl >= PatientTTL && m.renews() {
		s.tenure.intake.renew(s.identity, weight, heard)
		return
	}
	urgent := make([]locktable.Command, 0, 2+len(m.Releases)+len(m.Cancels)+len(m.Checks))
	urgent = append(urgent, heard)
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
		urgent = append(urgent, locktable.Close{Session: s.session, Identity: s.identity})
	}
	if !s.tenure.intake.addOf(s.identity, weight, urgent...) || len(m.Acquires) == 0 {
		return
	}
	for i := range m.Acquires {
		a := &m.Acquires[i]
		a.Ref, a.Session, a.Generation, a.Identity = s.r, s.session, s.generation, s.identity
	}
	if len(m.Traced) > 0 {
		s.tenure.traces.begin(s.r, m.Traced, m.Received, s.cell.o.Clock.Now())
	}
	refused, _ := s.tenure.intake.acquire(&s.line, m.Acquires)
	for i := range refused {
		s.r.Receive(refused[i].Number, locktable.Refused{
			Reason: locktable.Exhausted, Message: "too many acquires wait to be decided",
		})
	}
}

// Weight is how much there is to decide in what a client said at once: it is what
// Breathe is told before Submit.
func (m *Message) Weight() int {
	n := len(m.Releases) + len(m.Cancels) + len(m.Checks) + len(m.Observe) + len(m.Unobserve)
	if m.Close {
		n++
	}
	return n + 1
}

// finished is the number below which every request is finished as far as the table
// may know before it has decided this message's acquires. An acquire that replaces an
// older number has its place from there, or gives back what was granted to it.
func (m *Message) finished() uint64 {
	n := m.Finished
	for i := range m.Acquires {
		if old := m.Acquires[i].Replaces; old != 0 {
			n = min(n, old)
		}
	}
	return n
}

// Breathe waits while far more is to be decided than a turn takes, and while its
// identity alone has sent so much, so that who sends faster than the cell decides is
// held up itself, and not everybody's renewals behind it. What is submitted next
// takes up the room for its weight, or Exhale gives it back. False: ctx has ended.
func (s *Stream) Breathe(ctx context.Context, weight int) bool {
	if s.tenure == nil {
		return true
	}
	for {
		relief := s.tenure.intake.relief()
		if relief == nil {
			if !s.tenure.intake.reserve(ctx, s.identity, weight) {
				return false
			}
			s.reserved += weight
			return true
		}
		select {
		case <-relief:
		case <-ctx.Done():
			return false
		}
	}
}

// Exhale gives back what nothing is submitted for any more.
func (s *Stream) Exhale() {
	if s.tenure != nil {
		s.tenure.intake.waive(s.identity, s.reserved)
		s.reserved = 0
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
	s.tenure.traces.forget(s.r)
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
