package link

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/service"
	"github.com/pawlproject/pawl/internal/wire"
)

// front is the server's end of one stream.
type front struct {
	server *Server
	caller *streamCaller
	audit  *service.StreamAudit
	stream *cell.Stream
}

var _ wire.Front = (*front)(nil)

func (f *front) Welcome(a locktable.Attached) *linkpb.Welcome {
	detail := ""
	if a.RolledBack {
		// A client that may hold something can say so, and it alarms everybody.
		detail = "told a token that no log here has granted: store_rolled_back"
	}
	f.audit.Record("attach", "done", detail)
	return wire.Welcome(a, f.server.cell.Info(), f.stream.Session())
}

func (f *front) Closed(a locktable.Closed) *linkpb.Closed {
	c := &linkpb.Closed{Reason: wire.Reason(a.Reason), Message: a.Message}
	if a.Reason == "" {
		f.audit.Record("close", "done", a.Message)
	} else {
		f.audit.Record("detach", string(a.Reason), a.Message)
	}
	if a.Reason == locktable.Unavailable {
		c.ActiveLink = f.server.elsewhere()
	}
	return c
}

// Refused leaves out who holds a name where the caller may not read it.
func (f *front) Refused(a locktable.Refused) *linkpb.Refused {
	if a.Holder != nil && !f.caller.caller.Identity().Allow(access.Read, a.Name) {
		a.Holder = nil
	}
	return f.server.refused(a, "", 0)
}

func (f *front) Ticket(number uint64, p locktable.Place) []byte { return f.stream.Ticket(number, p) }

func (f *front) Now() clock.Reading { return f.server.o.Clock.Now() }

// elsewhere is where the active server is, unless that is this one.
func (s *Server) elsewhere() string {
	if info := s.cell.Info(); !info.Active {
		return info.ActiveLink
	}
	return ""
}

// refused is a refusal with where to go, and when to ask again.
func (s *Server) refused(a locktable.Refused, activeLink string, retry time.Duration) *linkpb.Refused {
	r := wire.Refused(a)
	r.RetryAfterNano, r.ActiveLink = int64(retry), activeLink
	if a.Reason == locktable.Unavailable && activeLink == "" {
		r.ActiveLink = s.elsewhere()
	}
	return r
}
