package cell

import (
	"cmp"
	"context"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/step"
)

// Stream is one client's stream as the cell sees it. Its answers go to the
// Receiver that it was attached with. Not to be used by several goroutines.
type Stream struct {
	cell   *Cell
	tenure *tenure
	r      Receiver
	id     secretID
	sender Sender
	queue  streamQueue
	// ttl is what the client asked for last, as far as it is known.
	ttl time.Duration
	// reserved is the weight that Reserve reserved and Submit did not use yet.
	reserved int
}

// Attach binds a stream to a session, a new one when the greeting names none. The first
// answer is Attached or Closed; after Closed the stream is over. Attach blocks, until
// ctx ends, while too many commands of its identity are undecided.
func (c *Cell) Attach(ctx context.Context, h Hello, r Receiver) *Stream {
	s := &Stream{
		cell: c, r: r, ttl: h.TTL, queue: streamQueue{identity: h.Identity, limit: h.QueuedMax},
		sender: Sender{Ref: r, Generation: h.Generation, Identity: h.Identity},
	}
	opens := len(h.Session) == 0
	switch {
	case opens:
		s.id = drawID()
		s.ttl = cmp.Or(s.ttl, bounds.TTLDefault)
	case copy(s.id[:], h.Session) != len(s.id) || len(h.Session) != len(s.id):
		r.Receive(0, locktable.Closed{Reason: locktable.Invalid, Message: "a session's id has 16 bytes"})
		return s
	}
	s.sender.Session = s.id.hash()
	a := s.sender.Attach(&h, opens)
	c.mu.Lock()
	t := c.now
	if t != nil {
		s.tenure = t
		c.streams[s] = struct{}{}
	}
	c.mu.Unlock()
	weight := 1 + len(h.Held) + len(h.Wanted)
	if t == nil || !t.intake.reserve(ctx, h.Identity, weight) || !t.intake.addOf(h.Identity, weight, a) {
		r.Receive(0, locktable.Closed{Reason: locktable.Unavailable, Message: c.notActive()})
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
	return locktable.Handle(s.tenure.secret, s.sender.Session)
}

// Submit takes in what a client said at once. It never blocks; when the tenure
// is over, the stream has been told.
func (s *Stream) Submit(m Message) {
	if s.tenure == nil {
		return
	}
	if m.TTL != 0 {
		s.ttl = m.TTL
	}
	weight := s.reserved
	s.reserved = 0
	if s.ttl >= PatientTTL && m.renews() {
		s.tenure.intake.renew(s.sender.Identity, weight, s.sender.Heard(&m))
		return
	}
	if !s.tenure.intake.addOf(s.sender.Identity, weight, s.sender.Urgent(&m)...) || len(m.Acquires) == 0 {
		return
	}
	if len(m.Traced) > 0 {
		s.tenure.traces.begin(s.r, m.Traced, m.Received, s.cell.o.Clock.Now())
	}
	refused, _ := s.tenure.intake.acquire(&s.queue, s.sender.Acquires(&m))
	for i := range refused {
		s.r.Receive(refused[i].Number, locktable.Refused{
			Reason: locktable.Exhausted, Message: tooMuchQueued,
		})
	}
}

// Weight is how many commands there are to decide in a message. It is the argument of
// Reserve before Submit.
func (m *Message) Weight() int {
	n := len(m.Releases) + len(m.Cancels) + len(m.Checks) + len(m.Observe) + len(m.Unobserve)
	if m.Close {
		n++
	}
	return n + 1
}

// Reserve blocks while far more waits to be decided than a turn takes, and while this
// identity has too many undecided commands. So a sender that is too fast blocks itself,
// and not the renewals of others. The next Submit uses the reserved weight, or
// CancelReservation returns it. It returns false when ctx has ended.
func (s *Stream) Reserve(ctx context.Context, weight int) bool {
	if s.tenure == nil {
		return true
	}
	for {
		relief := s.tenure.intake.floodEnd()
		if relief == nil {
			if !s.tenure.intake.reserve(ctx, s.sender.Identity, weight) {
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

// CancelReservation returns reserved weight that no Submit used.
func (s *Stream) CancelReservation() {
	if s.tenure != nil {
		s.tenure.intake.unreserve(s.sender.Identity, s.reserved)
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
	s.tenure.intake.drop(&s.queue)
	s.tenure.intake.add(locktable.Detach{Ref: s.r, Session: s.sender.Session, Generation: s.sender.Generation})
}

// Ticket writes the place in a queue of one of the stream's requests, for the
// client to show after a take-over. It may be called beside the other methods,
// and so may Place.
func (s *Stream) Ticket(number uint64, p locktable.Place) []byte {
	if s.tenure == nil {
		return nil
	}
	return step.Ticket(s.tenure.secret, s.sender.Session, number, p)
}

// Place reads a ticket; zero when it is not one that the cell wrote for this
// request.
func (s *Stream) Place(number uint64, ticket []byte) locktable.Place {
	if s.tenure == nil {
		return locktable.Place{}
	}
	return step.ReadTicket(s.tenure.secret, s.sender.Session, number, ticket)
}
