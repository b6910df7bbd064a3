package pawl

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/bearer"
	"github.com/pawlproject/pawl/internal/dialerr"
	"github.com/pawlproject/pawl/internal/protolimit"
	"github.com/pawlproject/pawl/internal/session"
)

const (
	// messageMax bounds what a server may send at once, in bytes.
	messageMax = 8 << 20
	// windowSize bounds the bytes of answers on their way.
	windowSize = 1 << 20
	// A connection on which nothing comes in is asked whether it lives: renewals
	// of a long TTL are too rare to tell. Not more often than servers allow.
	pingEvery    = 20 * time.Second
	pingPatience = 5 * time.Second
)

// streamEvent is what a stream tells the loop: a message, or why it has ended.
type streamEvent struct {
	id      uint64
	message *linkpb.ServerMessage
	cause   *session.Cause
}

// stream is one attempt to reach a server and what comes of it. It decides
// nothing.
type stream struct {
	client  *Client
	attempt *session.Attempt
	ctx     context.Context
	cancel  context.CancelFunc

	ready   chan struct{}
	mu      sync.Mutex
	pending []*linkpb.ClientMessage
}

type attachStream = grpc.BidiStreamingClient[linkpb.ClientMessage, linkpb.ServerMessage]

// open begins an attempt; it ends by cancel, or by itself with an event.
func (c *Client) open(a *session.Attempt) *stream {
	s := &stream{client: c, attempt: a, ready: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	c.streams.Go(func() {
		defer s.cancel()
		err := s.run()
		if s.ctx.Err() == nil {
			s.deliver(streamEvent{cause: explain(s.attempt, err)})
		}
	})
	return s
}

func explain(a *session.Attempt, err error) *session.Cause {
	network := func(err error) *session.Cause { return &session.Cause{Kind: session.NetworkError, NetworkErr: err} }
	if err == nil || errors.Is(err, io.EOF) {
		return network(errors.New("the server ended the stream"))
	}
	switch status.Code(err) {
	case codes.Unauthenticated:
		return session.Refuse(linkpb.Reason_REASON_UNAUTHENTICATED, status.Convert(err).Message())
	case codes.PermissionDenied:
		return session.Refuse(linkpb.Reason_REASON_DENIED, status.Convert(err).Message())
	case codes.ResourceExhausted:
		return session.Refuse(linkpb.Reason_REASON_EXHAUSTED, status.Convert(err).Message())
	}
	if unreached := dialerr.Of(a.Server, err); unreached != nil {
		unreached.By = a.SentBy
		return network(&unreachedError{unreached})
	}
	return network(errors.New(status.Convert(err).Message()))
}

func (s *stream) deliver(e streamEvent) {
	e.id = s.attempt.ID
	select {
	case s.client.streamEvents <- e:
	case <-s.ctx.Done():
	}
}

func (s *stream) run() error {
	conn, err := s.client.connect(s.attempt.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	link := linkpb.NewLinkClient(conn)
	for _, id := range s.attempt.Closing {
		_, err := link.CloseSession(s.ctx, &linkpb.CloseSessionRequest{Session: hex.EncodeToString(id), GivenUp: true})
		// Only a server that could not act on it leaves anything to be given up.
		if code := status.Code(err); code == codes.Unavailable || code == codes.Canceled || code == codes.DeadlineExceeded {
			if to := activeLink(err); to != "" {
				s.deliver(streamEvent{message: &linkpb.ServerMessage{Closed: &linkpb.Closed{
					Reason: linkpb.Reason_REASON_UNAVAILABLE, Message: status.Convert(err).Message(), ActiveLink: to,
				}}})
			}
			return err
		}
	}
	ctx, stop := context.WithCancel(s.ctx)
	var sender sync.WaitGroup
	defer sender.Wait()
	defer stop()
	st, err := link.Attach(ctx)
	if err != nil {
		return err
	}
	for _, m := range session.Greeting(s.attempt.Hello) {
		if err := st.Send(m); err != nil {
			return receiveError(st, err)
		}
	}
	for first := true; ; first = false {
		m, err := st.Recv()
		if err != nil {
			return err
		}
		if s.client.tracer != nil {
			s.client.tracer.heard(m)
		}
		s.deliver(streamEvent{message: m})
		if first {
			sender.Go(func() { s.send(st) })
		}
	}
}

// send passes on what the loop has put, in as few messages as it can.
func (s *stream) send(st attachStream) {
	for {
		select {
		case <-s.ready:
		case <-st.Context().Done():
			return
		}
		for _, m := range s.take() {
			for m != nil {
				var rest *linkpb.ClientMessage
				m, rest = session.Split(m)
				if s.client.tracer != nil {
					s.client.tracer.sending(m)
				}
				if st.Send(m) != nil {
					return // the receiver is told why
				}
				m = rest
			}
		}
	}
}

// put adds to what is to be sent.
func (s *stream) put(m *linkpb.ClientMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = session.Gather(s.pending, m)
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *stream) take() []*linkpb.ClientMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.pending
	s.pending = nil
	return all
}

// connect makes a connection of its own for every attempt: one that is stuck
// takes nothing else down with it.
func (c *Client) connect(server string) (*grpc.ClientConn, error) {
	var secret string
	if c.secret != nil {
		var err error
		if secret, err = c.secret(); err != nil {
			return nil, err
		}
	}
	dial := c.dialServer
	if dial == nil {
		dial = func(ctx context.Context, server string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", server)
		}
	}
	options, err := bearer.Options(server, c.options.TLS, secret, dial, c.dialServer != nil)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///"+server, append(options,
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingPatience}),
		// gRPC would measure what the network bears by a ping for every message.
		grpc.WithStaticStreamWindowSize(windowSize),
		grpc.WithStaticConnWindowSize(windowSize),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(messageMax), grpc.MaxCallSendMsgSize(messageMax), grpc.ForceCodecV2(protolimit.Codec()),
		),
	)...)
}

// receiveError finds the reason of a failed Send, which only Recv knows.
func receiveError(st attachStream, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	if _, why := st.Recv(); why != nil {
		return why
	}
	return err
}

// activeLink is where a refused call was told to go.
func activeLink(err error) string {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*linkpb.RefusedDetail); ok {
			return r.GetRefused().GetActiveLink()
		}
	}
	return ""
}
