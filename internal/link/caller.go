package link

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/service"
	"github.com/pawlproject/pawl/internal/wire"
)

// authorizationKey is where a call has its credential.
const authorizationKey = "authorization"

// presenting returns a context that carries the caller's proof. Every call
// begins with it, when its message is there.
func (s *Server) presenting(ctx context.Context) context.Context {
	if arrived, counted := ctx.Value(arrivedKey{}).(context.CancelFunc); counted {
		arrived()
	}
	return s.present(ctx, metadata.ValueFromIncomingContext(ctx, authorizationKey))
}

func (s *Server) present(ctx context.Context, authorization []string) context.Context {
	return access.Present(ctx, access.Proof{
		Authorization: authorization, Chain: chainOf(ctx), Remote: remoteOf(ctx), At: s.o.Clock.Wall(),
	})
}

// TapAdmission admits calls before anything but their metadata is read: a caller
// without an identity cannot make the server read messages of bounds.MessageMax. The call's handler
// checks again, as it may run without the tap.
//
// Calls without a stream are counted here, and must send their whole message within a
// time limit: until then each takes up memory for the part that has arrived.
func (s *Server) TapAdmission() grpc.ServerOption {
	return grpc.InTapHandle(func(ctx context.Context, call *tap.Info) (context.Context, error) {
		c, err := s.service.Admit(s.present(ctx, call.Header.Get(authorizationKey)), verbOf(call.FullMethodName))
		if err != nil {
			return ctx, s.failed(err)
		}
		ctx = access.With(ctx, c)
		if call.FullMethodName == linkpb.Link_Attach_FullMethodName {
			return ctx, nil // counted as a stream, and its greeting is waited for
		}
		leave, err := s.o.Gate.Call(c)
		if err != nil {
			return ctx, s.evicted(err)
		}
		return s.awaited(ctx, leave), nil
	})
}

type arrivedKey struct{}

// awaited ends a call whose message does not arrive within GreetingMax, and has it
// leave at its end.
func (s *Server) awaited(ctx context.Context, leave func()) context.Context {
	arriving, arrived := context.WithCancel(context.WithoutCancel(ctx))
	ctx, end := context.WithCancel(context.WithValue(ctx, arrivedKey{}, arrived))
	go func() {
		defer leave()
		defer end()
		defer arrived()
		late := s.o.Clock.NewTimer()
		late.Reset(GreetingMax)
		select {
		case <-arriving.Done():
		case <-ctx.Done():
		case <-late.C():
			end()
		}
		late.Stop()
		<-ctx.Done()
	}()
	return ctx
}

// verbOf is the verb of a call for the audit log. A method that there is not is
// whatever a stranger made up.
func verbOf(method string) string {
	name, ours := strings.CutPrefix(method, "/"+linkpb.Link_ServiceDesc.ServiceName+"/")
	called := func(m grpc.MethodDesc) bool { return m.MethodName == name }
	if ours && (name == "Attach" || slices.ContainsFunc(linkpb.Link_ServiceDesc.Methods, called)) {
		return strings.ToLower(name)
	}
	return "call"
}

// secured reports whether a call came by TLS.
func secured(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	_, ok = p.AuthInfo.(credentials.TLSInfo)
	return ok
}

func remoteOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// streamCaller is a stream's caller, from its first message to the last.
type streamCaller struct {
	server    *Server
	caller    *access.Caller
	admission *access.Admission
	// out has the reason when the caller must go.
	out chan error
}

// admit lets the caller of a stream in, or says why not.
func (s *Server) admit(ctx context.Context) (*streamCaller, error) {
	c, err := s.service.Admit(s.presenting(ctx), "attach")
	if err != nil {
		return nil, s.failed(err)
	}
	d := &streamCaller{server: s, caller: c, out: make(chan error, 1)}
	if d.admission, err = s.o.Gate.Register(c, true, func(why error) { d.out <- why }); err != nil {
		return nil, s.evicted(err)
	}
	return d, nil
}

// evicted is the end of a stream whose caller may not stay.
func (s *Server) evicted(why error) error {
	switch {
	case errors.Is(why, access.ErrRevoked):
		return s.failed(service.Unauthenticated(why))
	case errors.Is(why, access.ErrTooMany):
		return status.Error(codes.ResourceExhausted, why.Error())
	}
	return status.Error(codes.Unavailable, why.Error())
}

// expiry fires when the caller's certificate is over; nil: it has none.
func (d *streamCaller) expiry() (over <-chan struct{}, stop func()) {
	left, by := d.caller.Left()
	if !by {
		return nil, func() {}
	}
	t := d.server.o.Clock.NewTimer()
	t.Reset(left)
	return t.C(), func() { t.Stop() }
}

// hello makes the cell's greeting of a client's. A report of a seen token is passed on
// only for a caller with the right to hold, since no other was ever granted a token.
func (d *streamCaller) hello(h *linkpb.Hello, i *access.Identity) cell.Hello {
	c := wire.Hello(h, i.Anywhere(access.Hold))
	c.Identity, c.QueuedMax = i.Name(), i.Limits().Acquires
	return c
}

// chainOf is the caller's verified certificate chain.
func chainOf(ctx context.Context) []*x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
		return info.State.VerifiedChains[0]
	}
	return nil
}
