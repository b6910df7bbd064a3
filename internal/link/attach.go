package link

import (
	"context"
	"errors"
	"io"
	"runtime"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/wire"
)

type attachStream = grpc.BidiStreamingServer[linkpb.ClientMessage, linkpb.ServerMessage]

// Attach serves one stream of a session.
func (s *Server) Attach(st attachStream) error {
	door, err := s.admit(st.Context())
	if err != nil {
		return err
	}
	defer door.admission.End()
	over, stop := door.expiry()
	defer stop()
	ended := make(chan error, 2)
	greeted := make(chan greeting, 1)
	attached := make(chan *cell.Stream, 1)
	out := newOutbox()

	go func() { ended <- s.receive(st, door, out, greeted, attached) }()

	hello, refusal, err := s.greeting(st.Context(), greeted, ended)
	if err != nil {
		return err
	}
	if refusal != nil {
		return st.Send(&linkpb.ServerMessage{Closed: refusal})
	}
	if hello.WaitNano > 0 {
		to, err := s.waitForActive(st.Context(), door, hello, ended, over)
		if err != nil {
			return err
		}
		if to != "" {
			return st.Send(&linkpb.ServerMessage{Closed: s.sentTo(to)})
		}
	}
	identity := door.caller.Identity()
	if identity == nil {
		return s.evicted(access.ErrRevoked)
	}
	out.audit = s.service.StreamAudit(identity, door.caller.Remote)
	out.budget = s.unreadOf(identity.Name())
	defer out.close()
	stream := s.cell.Attach(st.Context(), door.hello(hello, identity), out)
	defer stream.Detach()
	out.audit.Session(stream.Handle())
	attached <- stream

	go func() { ended <- s.send(st, door, out, stream) }()
	select {
	case err := <-ended:
		return s.told(err, out)
	case why := <-door.out:
		out.audit.Record("detach", "put out", why.Error())
		return s.evicted(why)
	case <-over:
		return s.evicted(access.ErrRevoked)
	case <-out.overflow:
		return s.told(nil, out)
	}
}

// greeting is how a client began, or why it is refused.
type greeting struct {
	hello   *linkpb.Hello
	refusal *linkpb.Closed
}

func (s *Server) greeting(ctx context.Context, greeted <-chan greeting, ended <-chan error) (*linkpb.Hello, *linkpb.Closed, error) {
	late := s.o.Clock.NewTimer()
	defer late.Stop()
	late.Reset(GreetingMax)
	select {
	case g := <-greeted:
		return g.hello, g.refusal, nil
	case err := <-ended:
		if err == nil {
			// It went, or said that it says nothing, which elsewhere is no error.
			err = status.Error(codes.Canceled, "the stream ended before its greeting")
		}
		return nil, nil, err
	case <-late.C():
		return nil, nil, status.Errorf(codes.DeadlineExceeded, "no greeting within %v", GreetingMax)
	case <-ctx.Done():
		return nil, nil, status.FromContextError(ctx.Err()).Err()
	}
}

// receive hands the client's messages to the cell, each as a whole.
func (s *Server) receive(st attachStream, door *streamCaller, out *outbox, greeted chan<- greeting, attached <-chan *cell.Stream) error {
	m := new(linkpb.ClientMessage)
	if err := door.receiveInto(st, m); err != nil {
		return ending(err)
	}
	if m.Hello == nil {
		return status.Error(codes.InvalidArgument, "the first message of a stream is its greeting")
	}
	if !wire.Alone(m) {
		return status.Error(codes.InvalidArgument, "a greeting that asks for something; a message of its own was expected for that")
	}
	if no := wire.CheckHello(m.Hello); no != nil {
		greeted <- greeting{refusal: no}
		<-st.Context().Done()
		return nil
	}
	give, err := door.further(st, m.Hello)
	if err != nil {
		return ending(err)
	}
	defer give()
	greeted <- greeting{hello: m.Hello}
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
	m.Hello = nil
	give()
	defer stream.CancelReservation()
	for {
		if err := s.submit(st.Context(), stream, door, out, m); err != nil {
			return err
		}
		// A stream may say nothing for days. What it said last, many times as large as
		// on the wire, is not kept meanwhile.
		proto.Reset(m)
		if err := door.receiveInto(st, m); err != nil {
			return ending(err)
		}
	}
}

// further receives the rest of a greeting that does not fit into one message. It
// reserves room for all of it first, until give is called: a stream that had room for a
// part would keep it from others that wait as well.
func (d *streamCaller) further(st attachStream, h *linkpb.Hello) (give func(), err error) {
	if h.Further == 0 {
		return func() {}, nil
	}
	if give, err = d.server.o.Gate.Bytes(st.Context(), d.caller, int(h.Further)*wire.EntryBytes); err != nil {
		return nil, d.server.evicted(err)
	}
	for m := new(linkpb.ClientMessage); h.Further > 0; {
		if err = d.receiveInto(st, m); err != nil {
			break
		}
		if no := wire.Further(h, m); no != nil {
			err = status.Error(codes.InvalidArgument, no.Error())
			break
		}
	}
	if err != nil {
		give()
	}
	return give, err
}

// submit hands a message to the cell, as far as its caller may ask for what it asks.
// A request that no version of ours knows is answered here: the cell could not name it.
func (s *Server) submit(ctx context.Context, stream *cell.Stream, door *streamCaller, out *outbox, m *linkpb.ClientMessage) error {
	if err := wire.CheckMessage(m); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if wire.Empty(m) {
		return nil
	}
	identity := door.caller.Identity()
	if identity == nil {
		return s.evicted(access.ErrRevoked)
	}
	if len(m.Observe) > 0 {
		var denied []locktable.Observed
		m.Observe, denied = s.service.Observable(identity, door.caller.Remote, m.Observe)
		for _, a := range denied {
			out.Receive(0, a)
		}
	}
	c, unknown := wire.Sorter{Place: stream.Place, Admit: func(r *linkpb.Request) bool {
		switch w := r.What.(type) {
		case *linkpb.Request_Acquire:
			out.audit.Asked(r.Number, "acquire", w.Acquire.GetNames(), 0)
			if no := s.service.AcquireRefusal(identity, w.Acquire.GetNames()); no != nil {
				out.Receive(r.Number, *no)
				return false
			}
		case *linkpb.Request_Release:
			out.audit.Asked(r.Number, "release", nil, w.Release.GetToken())
		}
		return true
	}}.Sort(m)
	if len(c.Traced) > 0 {
		c.Received = s.o.Clock.Now()
	}
	for _, n := range unknown {
		out.Receive(n, locktable.Refused{Reason: locktable.Invalid, Message: "the server does not know this kind of request"})
	}
	if stream.Reserve(ctx, c.Weight()) {
		stream.Submit(c)
	}
	return nil
}

// send passes on what gathers in the outbox until the stream's session is
// closed or the stream breaks.
func (s *Server) send(st attachStream, door *streamCaller, out *outbox, stream *cell.Stream) error {
	packer := wire.Packer{Front: &front{server: s, caller: door, audit: out.audit, stream: stream}}
	var items []wire.Item
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
			if out.budget.full() {
				return s.disconnectUnread(out.budget, false)
			}
			var weight int
			m, rest, weight = packer.Pack(rest)
			if err := st.Send(m); err != nil {
				return ending(err)
			}
			out.written(weight)
			if m.Closed != nil {
				return nil
			}
		}
		clear(items)
		out.sent()
	}
}

// told is how a stream ends: a client that was too slow is told so, also when it has
// said meanwhile that it sends no more, which alone is no error.
func (s *Server) told(err error, out *outbox) error {
	select {
	case <-out.overflow:
		return s.disconnectUnread(out.budget, out.alone)
	default:
		return err
	}
}

// waited reports whether all that is to be sent is the answer to a renewal that the
// cell has kept for others already.
func waited(items []wire.Item) bool {
	if len(items) != 1 {
		return false
	}
	r, renewed := items[0].Answer.(locktable.Renewed)
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
