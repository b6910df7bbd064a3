package link

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/wire"
)

// OpenSession opens a session without a stream.
func (s *Server) OpenSession(ctx context.Context, r *linkpb.OpenSessionRequest) (*linkpb.OpenSessionResponse, error) {
	session, ttl, err := s.service.OpenSession(s.presenting(ctx), time.Duration(r.TtlNano), r.Label)
	if err != nil {
		return nil, s.failed(err)
	}
	return &linkpb.OpenSessionResponse{Session: session, TtlNano: int64(ttl)}, nil
}

// RenewSession renews it.
func (s *Server) RenewSession(ctx context.Context, r *linkpb.RenewSessionRequest) (*linkpb.RenewSessionResponse, error) {
	ttl, err := s.service.RenewSession(s.presenting(ctx), r.Session, time.Duration(r.TtlNano))
	if err != nil {
		return nil, s.failed(err)
	}
	return &linkpb.RenewSessionResponse{TtlNano: int64(ttl)}, nil
}

// CloseSession ends it and all its leases.
func (s *Server) CloseSession(ctx context.Context, r *linkpb.CloseSessionRequest) (*linkpb.CloseSessionResponse, error) {
	if err := s.service.CloseSession(s.presenting(ctx), r.Session, r.GivenUp); err != nil {
		return nil, s.failed(err)
	}
	return &linkpb.CloseSessionResponse{}, nil
}

// Acquire takes a lease in a session, or with a session of its own.
func (s *Server) Acquire(ctx context.Context, r *linkpb.AcquireRequest) (*linkpb.AcquireResponse, error) {
	var received clock.Reading
	if r.Trace {
		received = s.o.Clock.Now()
	}
	l, err := s.service.Acquire(s.presenting(ctx), cell.AcquireRequest{
		Names:       append([]string{r.Name}, r.Names...),
		Mode:        wire.Mode(r.Shared, r.Slots),
		Slots:       r.Slots,
		Value:       r.Value,
		LockDelay:   time.Duration(r.LockDelayNano),
		Claims:      r.Claims,
		RideThrough: time.Duration(r.RideThroughNano),
		Session:     r.Session,
		TTL:         time.Duration(r.TtlNano),
		Wait:        time.Duration(r.WaitNano),
		Label:       r.Label,
		RequestID:   r.RequestId,
		Traced:      r.Trace,
		Received:    received,
	})
	if err != nil {
		return nil, s.failed(err)
	}
	g := l.Granted
	a := &linkpb.AcquireResponse{
		Lease:      l.ID,
		Name:       r.Name,
		Token:      uint64(g.Token),
		Fence:      uint64(g.Grants[0].Fence),
		Slot:       g.Grants[0].Slot,
		Cell:       l.Cell,
		Session:    l.Session,
		TtlNano:    int64(g.TTL),
		WaitedNano: int64(g.Waited),

		RideThroughNano: int64(g.RideThrough),
	}
	if l.Trace != nil {
		a.Trace = wire.Trace(*l.Trace, s.o.Clock.Now())
	}
	if len(g.Grants) > 1 {
		for _, n := range g.Grants {
			a.Fences = append(a.Fences, &linkpb.Fence{Name: n.Name, Fence: uint64(n.Fence), Slot: n.Slot})
		}
	}
	return a, nil
}

// RenewLease renews the session of a lease.
func (s *Server) RenewLease(ctx context.Context, r *linkpb.RenewLeaseRequest) (*linkpb.RenewLeaseResponse, error) {
	l, err := s.service.RenewLease(s.presenting(ctx), r.Lease, time.Duration(r.TtlNano))
	if err != nil {
		return nil, s.failed(err)
	}
	return &linkpb.RenewLeaseResponse{Session: l.Session, TtlNano: int64(l.TTL), Breaking: l.Breaking, Reason: l.Reason}, nil
}

// Release ends a lease.
func (s *Server) Release(ctx context.Context, r *linkpb.ReleaseRequest) (*linkpb.ReleaseResponse, error) {
	if err := s.service.Release(s.presenting(ctx), r.Lease); err != nil {
		return nil, s.failed(err)
	}
	return &linkpb.ReleaseResponse{}, nil
}

// List shows what is held or waited for.
func (s *Server) List(ctx context.Context, r *linkpb.ListRequest) (*linkpb.ListResponse, error) {
	page, err := s.service.List(s.presenting(ctx), locktable.List{
		Name: r.Name, Prefix: r.Prefix, After: r.PageToken, Limit: int(r.PageSize),
	})
	if err != nil {
		return nil, s.failed(err)
	}
	a := &linkpb.ListResponse{NextPageToken: page.Next}
	for _, l := range page.Locks {
		a.Locks = append(a.Locks, wire.Lock(l))
	}
	return a, nil
}

// Break asks a holder to let go, or ends its lease.
func (s *Server) Break(ctx context.Context, r *linkpb.BreakRequest) (*linkpb.BreakResponse, error) {
	broken, err := s.service.Break(s.presenting(ctx), locktable.Break{
		Name: r.Name, Token: guard.Token(r.Token), Reason: r.Reason, Now: r.Now,
	})
	if err != nil {
		return nil, s.failed(err)
	}
	return &linkpb.BreakResponse{Ended: broken.Ended, RidesOnNano: int64(broken.RidesOn)}, nil
}

// Status shows the cell's state, on a standby too.
func (s *Server) Status(ctx context.Context, _ *linkpb.StatusRequest) (*linkpb.StatusResponse, error) {
	st, err := s.service.Status(s.presenting(ctx))
	if err != nil {
		return nil, s.failed(err)
	}
	var health *linkpb.Health
	if s.o.Health != nil && !st.Partial {
		health = s.o.Health()
	}
	return &linkpb.StatusResponse{
		Cell:             st.Cell,
		Epoch:            st.Epoch,
		ActiveLink:       st.ActiveLink,
		ActiveHttp:       st.ActiveHTTP,
		Active:           st.Active,
		ActiveTtlNano:    int64(st.ActiveTTL),
		Token:            uint64(st.Token),
		CounterAheadNano: int64(st.Ahead),
		Sessions:         uint64(st.Sessions),
		Leases:           uint64(st.Leases),
		Waiters:          uint64(st.Waiters),
		Batch:            st.Batch,
		StoreUsedBytes:   st.Usage.Used,
		StoreQuotaBytes:  st.Usage.Quota,
		DiskFreeBytes:    st.Usage.Free,
		StoreHistory:     st.Usage.History,
		StoreWarning:     st.Usage.Warning,
		RolledBack:       st.RolledBack,
		Tight:            st.Tight,
		Version:          s.o.Version,
		Store:            s.o.Store,
		Tls:              secured(ctx),
		Auth:             !s.o.Gate.Open(),
		Partial:          st.Partial,
		Role:             st.Role(),
		DrillNano:        int64(st.Drill),
		Followed:         st.Followed,
		BehindNano:       int64(st.Behind),
		WallUnixNano:     s.o.Clock.Wall().UnixNano(),
		Health:           health,
		Waits:            st.Waits,
	}, nil
}

// Drill has the cell answer as one that has lost its quorum, and tells who did not live
// through it.
func (s *Server) Drill(ctx context.Context, r *linkpb.DrillRequest) (*linkpb.DrillResponse, error) {
	report, err := s.service.Drill(s.presenting(ctx), time.Duration(r.ForNano))
	if err != nil {
		return nil, s.failed(err)
	}
	return wire.DrillReport(report), nil
}

// statusCodes are the gRPC codes of the reasons; the reason itself goes in the
// detail.
var statusCodes = map[locktable.Reason]codes.Code{
	locktable.Invalid:         codes.InvalidArgument,
	locktable.Unauthenticated: codes.Unauthenticated,
	locktable.Denied:          codes.PermissionDenied,
	locktable.Gone:            codes.NotFound,
	locktable.Held:            codes.FailedPrecondition,
	locktable.Conflict:        codes.Aborted,
	locktable.TokenMismatch:   codes.FailedPrecondition,
	locktable.Exhausted:       codes.ResourceExhausted,
	locktable.Unavailable:     codes.Unavailable,
	locktable.RolledBack:      codes.DataLoss,
	locktable.Cancelled:       codes.Canceled,
}

// failed makes a gRPC status of what the cell returned.
func (s *Server) failed(err error) error {
	var r *cell.RefusedError
	if !errors.As(err, &r) {
		return status.FromContextError(err).Err()
	}
	code, ok := statusCodes[r.Reason]
	if !ok {
		code = codes.Unknown
	}
	st := status.New(code, r.Message)
	if with, err := st.WithDetails(&linkpb.RefusedDetail{Refused: s.refused(r.Refused, r.ActiveLink, r.RetryAfter)}); err == nil {
		st = with
	}
	return st.Err()
}
