package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

type attachStream = grpc.BidiStreamingServer[linkpb.ClientMessage, linkpb.ServerMessage]

// Attach serves one stream of a session.
func (s *Server) Attach(st attachStream) error {
	door, err := s.admit(st.Context())
	if err != nil {
		return err
	}
	defer door.guest.Leave()
	over, stop := door.expiry()
	defer stop()
	ended := make(chan error, 2)
	greeted := make(chan *linkpb.Hello, 1)
	attached := make(chan *cell.Stream, 1)
	out := newOutbox()

	go func() { ended <- s.receive(st, door, out, greeted, attached) }()

	hello, err := s.greeting(st.Context(), greeted, ended)
	if err != nil {
		return err
	}
	if refusal := check(hello); refusal != nil {
		return st.Send(&linkpb.ServerMessage{Closed: refusal})
	}
	if hello.WaitNano > 0 {
		to, err := s.hold(st.Context(), door, hello, ended, over)
		if err != nil {
			return err
		}
		if to != "" {
			return st.Send(&linkpb.ServerMessage{Closed: s.sentTo(to)})
		}
	}
	identity := door.caller.Identity()
	if identity == nil {
		return s.putOut(access.ErrRevoked)
	}
	out.notes = newNotes(s.o.Witness, identity, door.caller.Remote)
	out.debt = s.debtOf(identity.Name())
	defer func() {
		out.settle()
		s.eased(out.debt)
	}()
	stream := s.cell.Attach(st.Context(), door.hello(hello, identity), out)
	defer stream.Detach()
	out.notes.session(stream.Handle())
	attached <- stream

	go func() { ended <- s.send(st, door, out, stream) }()
	select {
	case err := <-ended:
		return err
	case why := <-door.out:
		out.notes.greeted("detach", "put out", why.Error())
		return s.putOut(why)
	case <-over:
		return s.putOut(access.ErrRevoked)
	case <-out.overflow:
		return s.unread(out.debt, out.alone)
	}
}

func (s *Server) greeting(ctx context.Context, greeted <-chan *linkpb.Hello, ended <-chan error) (*linkpb.Hello, error) {
	late := s.o.Clock.NewTimer()
	defer late.Stop()
	late.Reset(GreetingMax)
	select {
	case h := <-greeted:
		return h, nil
	case err := <-ended:
		if err == nil {
			// It went, or said that it says nothing, which elsewhere is no error.
			err = status.Error(codes.Canceled, "the stream ended before its greeting")
		}
		return nil, err
	case <-late.C():
		return nil, status.Errorf(codes.DeadlineExceeded, "no greeting within %v", GreetingMax)
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// check says why a greeting is not accepted. What the lock table checks itself
// is left to it.
func check(h *linkpb.Hello) *linkpb.Closed {
	switch {
	case !speaks(h.Version):
		return &linkpb.Closed{Reason: linkpb.Reason_REASON_INVALID, Message: fmt.Sprintf(
			"the client speaks version %d of the link protocol, this server %d and its neighbours", h.Version, Version)}
	case len(h.Session) != 0 && len(h.Session) != len(locktable.ID{}):
		return &linkpb.Closed{Reason: linkpb.Reason_REASON_INVALID, Message: fmt.Sprintf(
			"a session id of %d bytes; %d were expected", len(h.Session), len(locktable.ID{}))}
	case len(h.Held) > HeldMax || len(h.Wanted) > HeldMax:
		return &linkpb.Closed{Reason: linkpb.Reason_REASON_INVALID, Message: fmt.Sprintf(
			"%d leases and %d requests in a greeting; at most %d of each were expected", len(h.Held), len(h.Wanted), HeldMax)}
	case h.Generation == 0:
		return &linkpb.Closed{Reason: linkpb.Reason_REASON_INVALID, Message: "generation 0 of the stream; 1 or more was expected"}
	}
	return nil
}

// receive hands the client's messages to the cell, each as a whole.
func (s *Server) receive(st attachStream, door *door, out *outbox, greeted chan<- *linkpb.Hello, attached <-chan *cell.Stream) error {
	first, err := st.Recv()
	if err != nil {
		return ending(err)
	}
	if first.Hello == nil {
		return status.Error(codes.InvalidArgument, "the first message of a stream is its greeting")
	}
	greeted <- first.Hello
	var stream *cell.Stream
	select {
	case stream = <-attached:
	case <-st.Context().Done():
		return nil
	}
	select {
	case <-out.welcome:
	case <-st.Context().Done():
		return nil
	}
	first.Hello = nil
	defer stream.Exhale()
	for m := first; ; {
		if err := s.submit(st.Context(), stream, door, out, m); err != nil {
			return err
		}
		if err := st.RecvMsg(m); err != nil {
			return ending(err)
		}
	}
}

// submit takes the message apart. A request that no version of ours knows is
// answered here: the cell could not name it.
func (s *Server) submit(ctx context.Context, stream *cell.Stream, door *door, out *outbox, m *linkpb.ClientMessage) error {
	if m.Hello != nil {
		return status.Error(codes.InvalidArgument, "a second greeting")
	}
	if len(m.Requests) > RequestsMax {
		return status.Errorf(codes.InvalidArgument, "%d requests in one message; at most %d were expected", len(m.Requests), RequestsMax)
	}
	if n := len(m.Observe) + len(m.Unobserve); n > RequestsMax {
		return status.Errorf(codes.InvalidArgument, "%d names to observe or not in one message; at most %d were expected", n, RequestsMax)
	}
	if m.FinishedBelow == 0 && m.Renewal == 0 && len(m.Requests) == 0 && len(m.Observe) == 0 && len(m.Unobserve) == 0 && !m.Close {
		return nil
	}
	identity := door.caller.Identity()
	if identity == nil {
		return s.putOut(access.ErrRevoked)
	}
	if len(m.Observe) > 0 {
		m.Observe = door.observable(identity, out, m.Observe)
	}
	c := cell.Message{Renewal: m.Renewal, TTL: time.Duration(m.TtlNano), Finished: m.FinishedBelow, Observe: m.Observe, Unobserve: m.Unobserve, Close: m.Close}
	c.Acquires = make([]locktable.Acquire, 0, acquiresIn(m.Requests))
	for _, r := range m.Requests {
		if r.Number == 0 {
			return status.Error(codes.InvalidArgument, "a request without a number")
		}
		out.notes.asked(r)
		if a := r.GetAcquire(); a != nil && !door.mayAcquire(identity, out, r.Number, a.Names) {
			continue
		}
		if r.Trace && r.GetAcquire() != nil {
			if len(c.Traced) == 0 {
				c.Received = s.o.Clock.Now()
			}
			c.Traced = append(c.Traced, r.Number)
		}
		if !sort(stream, &c, r) {
			out.Receive(r.Number, locktable.Refused{Reason: locktable.Invalid, Message: "the server does not know this kind of request"})
		}
	}
	if stream.Breathe(ctx, c.Weight()) {
		stream.Submit(c)
	}
	return nil
}

// acquiresIn counts them: they are large, and a slice that grows copies them.
func acquiresIn(requests []*linkpb.Request) int {
	n := 0
	for _, r := range requests {
		if r.GetAcquire() != nil {
			n++
		}
	}
	return n
}

// modeOf reads a lease's mode. Shared slots are no mode: the table refuses slots
// that are not of mode Slots.
func modeOf(shared bool, slots uint32) locktable.Mode {
	switch {
	case shared:
		return locktable.Shared
	case slots != 0:
		return locktable.Slots
	}
	return locktable.Exclusive
}

// sort puts a request with others of its kind; false: no kind that is known.
func sort(stream *cell.Stream, c *cell.Message, r *linkpb.Request) bool {
	switch w := r.What.(type) {
	case *linkpb.Request_Acquire:
		a := locktable.Acquire{
			Number: r.Number, Names: w.Acquire.Names, Mode: modeOf(w.Acquire.Shared, w.Acquire.Slots),
			Slots: w.Acquire.Slots, Label: w.Acquire.Label, Value: w.Acquire.Value,
			LockDelay: time.Duration(w.Acquire.LockDelayNano), Try: w.Acquire.Try, Replaces: w.Acquire.Replaces,
		}
		if len(w.Acquire.Ticket) > 0 {
			a.Ticket = stream.Place(cmp.Or(a.Replaces, r.Number), w.Acquire.Ticket)
		}
		c.Acquires = append(c.Acquires, a)
	case *linkpb.Request_Release:
		c.Releases = append(c.Releases, locktable.Release{Number: r.Number, Token: tokenOf(w.Release.Token)})
	case *linkpb.Request_Cancel:
		c.Cancels = append(c.Cancels, locktable.Cancel{Number: w.Cancel.Number})
	case *linkpb.Request_Check:
		c.Checks = append(c.Checks, locktable.Check{Number: r.Number, Token: tokenOf(w.Check.Token)})
	default:
		return false
	}
	return true
}

// send passes on what gathers in the outbox until the stream's session is
// closed or the stream breaks.
func (s *Server) send(st attachStream, door *door, out *outbox, stream *cell.Stream) error {
	w := writer{server: s, door: door, notes: out.notes, stream: stream}
	var items []item
	gone := st.Context().Done()
	for {
		select {
		case <-out.ready:
		case <-gone:
			return nil
		}
		items = out.take(items[:0])
		if !waited(items) {
			runtime.Gosched()
			items = out.take(items)
		}
		for rest := items; len(rest) > 0; {
			var m *linkpb.ServerMessage
			if out.debt.pressing() {
				return s.unread(out.debt, false)
			}
			m, rest = w.message(rest)
			if err := st.Send(m); err != nil {
				return ending(err)
			}
			out.paid(w.weighed)
			s.eased(out.debt)
			if m.Closed != nil {
				return nil
			}
		}
		clear(items)
		out.sent()
	}
}

// waited reports whether all that is to be sent is the answer to a renewal that the
// cell has kept for others already.
func waited(items []item) bool {
	if len(items) != 1 {
		return false
	}
	r, renewed := items[0].answer.(locktable.Renewed)
	return renewed && r.TTL >= cell.PatientTTL
}

// ending makes of the end of a stream what the handler returns: a client that
// went is no error.
func ending(err error) error {
	if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}
