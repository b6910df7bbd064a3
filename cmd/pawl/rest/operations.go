package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// operation registers one, and sees to what is the same for all of them: the
// refusals that may come, and that no body is read by huma, which would leave
// its deadline behind.
func operation[I, O any](
	api huma.API, takesBody map[string]bodyRule, method, path, id, summary string, refusals []int,
	do func(context.Context, *I) (*O, error),
) {
	op := huma.Operation{
		OperationID:     id,
		Method:          method,
		Path:            path,
		Summary:         summary,
		MaxBodyBytes:    BodyMax,
		BodyReadTimeout: -1,
		Errors: append([]int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable,
		}, refusals...),
		Responses: map[string]*huma.Response{},
	}
	huma.Register(api, op, do)
	// huma describes what its own errors would be; ours have other statuses.
	delete(op.Responses, "422")
	delete(op.Responses, "500")
	switch {
	case method != http.MethodPost:
	case mayHaveBody[id]:
		takesBody[method+" "+path] = bodyAllowed
	default:
		takesBody[method+" "+path] = bodyWanted
	}
}

// mayHaveBody are the operations by POST that their path can be enough for.
var mayHaveBody = map[string]bool{"renew-session": true, "renew-lease": true}

// bodyRule says whether a request has a body.
type bodyRule uint8

const (
	bodyRefused bodyRule = iota
	bodyAllowed
	bodyWanted
)

func (s *service) register(api huma.API, takesBody map[string]bodyRule) {
	gone := []int{http.StatusNotFound}
	operation(api, takesBody, http.MethodPost, "/v1/sessions", "open-session",
		"Open a session", nil, s.openSession)
	operation(api, takesBody, http.MethodPost, "/v1/sessions/{session}/renew", "renew-session",
		"Renew a session and all its leases", gone, s.renewSession)
	operation(api, takesBody, http.MethodDelete, "/v1/sessions/{session}", "close-session",
		"Close a session and release all its leases", gone, s.closeSession)
	operation(api, takesBody, http.MethodPost, "/v1/leases", "acquire",
		"Acquire a lease", []int{http.StatusNotFound, http.StatusConflict}, s.acquire)
	operation(api, takesBody, http.MethodPost, "/v1/leases/{lease}/renew", "renew-lease",
		"Renew the session of a lease", gone, s.renewLease)
	operation(api, takesBody, http.MethodDelete, "/v1/leases/{lease}", "release",
		"Release a lease", gone, s.release)
	operation(api, takesBody, http.MethodGet, "/v1/locks", "list",
		"List names that are held or waited for", nil, s.list)
	operation(api, takesBody, http.MethodPost, "/v1/break", "break",
		"Break a lease", []int{http.StatusPreconditionFailed}, s.breakLease)
	operation(api, takesBody, http.MethodGet, "/v1/status", "status",
		"Show the state of the cell", nil, s.status)
}

type body[T any] struct{ Body T }

type empty struct{}

// SessionBody answers the opening and every renewal.
type SessionBody struct {
	Session string   `json:"session"`
	TTL     Duration `json:"ttl" doc:"What this request is good for as a renewal, from when it was sent."`
}

type openSessionInput struct {
	Body struct {
		TTL   *Duration `json:"ttl,omitempty" doc:"1s to 24h; 15s when absent."`
		Label string    `json:"label,omitempty" doc:"Shown to others; at most 256 bytes."`
	}
}

func (s *service) openSession(ctx context.Context, in *openSessionInput) (*body[SessionBody], error) {
	ttl, err := ttlOf(in.Body.TTL)
	if err != nil {
		return nil, invalid(err.Error())
	}
	id, granted, err := s.cell.OpenSession(ctx, ttl, in.Body.Label)
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[SessionBody]{SessionBody{id, Duration(granted)}}, nil
}

// ttlOf keeps a stated zero from being taken for "the default".
func ttlOf(d *Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	return time.Duration(*d), locktable.ValidTTL(time.Duration(*d))
}

type sessionInput struct {
	Session string `path:"session" doc:"Id of a session."`
}

// renewBody may go with a renewal.
type renewBody struct {
	TTL *Duration `json:"ttl,omitempty" doc:"Another TTL from now on, 1s to 24h; absent: the one that was asked for last."`
}

func (b *renewBody) ttl() (time.Duration, error) {
	if b == nil {
		return 0, nil
	}
	return ttlOf(b.TTL)
}

type renewSessionInput struct {
	Session string `path:"session" doc:"Id of a session."`
	Body    *renewBody
}

func (s *service) renewSession(ctx context.Context, in *renewSessionInput) (*body[SessionBody], error) {
	want, err := in.Body.ttl()
	if err != nil {
		return nil, invalid(err.Error())
	}
	ttl, err := s.cell.RenewSession(ctx, in.Session, want)
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[SessionBody]{SessionBody{in.Session, Duration(ttl)}}, nil
}

func (s *service) closeSession(ctx context.Context, in *sessionInput) (*body[empty], error) {
	if err := s.cell.CloseSession(ctx, in.Session); err != nil {
		return nil, s.refusal(err)
	}
	return &body[empty]{}, nil
}

type leaseInput struct {
	Lease string `path:"lease" doc:"Id of a lease."`
}

// RenewalBody answers the renewal of a lease. A holder by HTTP has no stream
// that would tell it of a break: here it is asked to let go.
type RenewalBody struct {
	SessionBody
	Breaking bool   `json:"breaking,omitempty" doc:"The holder is asked to stop and to release the lease. Absent otherwise."`
	Reason   string `json:"reason,omitempty" doc:"Why, while breaking."`
}

type renewLeaseInput struct {
	Lease string `path:"lease" doc:"Id of a lease."`
	Body  *renewBody
}

func (s *service) renewLease(ctx context.Context, in *renewLeaseInput) (*body[RenewalBody], error) {
	want, err := in.Body.ttl()
	if err != nil {
		return nil, invalid(err.Error())
	}
	l, err := s.cell.RenewLease(ctx, in.Lease, want)
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[RenewalBody]{RenewalBody{SessionBody{l.Session, Duration(l.TTL)}, l.Breaking, l.Reason}}, nil
}

func (s *service) release(ctx context.Context, in *leaseInput) (*body[empty], error) {
	if err := s.cell.Release(ctx, in.Lease); err != nil {
		return nil, s.refusal(err)
	}
	return &body[empty]{}, nil
}

type listInput struct {
	Name      string `query:"name" doc:"This name alone."`
	Prefix    string `query:"prefix" doc:"Names that begin so; all when empty."`
	PageToken string `query:"page_token" doc:"The next_page_token of the page before."`
}

type listBody struct {
	Locks         []LockBody `json:"locks" nullable:"false"`
	NextPageToken string     `json:"next_page_token" doc:"Empty on the last page."`
}

func (s *service) list(ctx context.Context, in *listInput) (*body[listBody], error) {
	if in.Name != "" && (in.Prefix != "" || in.PageToken != "") {
		return nil, invalid("name is given together with prefix or page_token; expected one of them")
	}
	l := locktable.List{Name: in.Name, Prefix: in.Prefix, Limit: locktable.PageMax}
	if in.Name != "" {
		if err := locktable.ValidName(in.Name); err != nil {
			return nil, invalid(err.Error())
		}
	}
	var err error
	if l.After, err = readPageToken(in.PageToken); err != nil {
		return nil, invalid(err.Error())
	}
	page, err := s.cell.List(ctx, l)
	if err != nil {
		return nil, s.refusal(err)
	}
	out := listBody{Locks: []LockBody{}, NextPageToken: pageToken(page.Next)}
	for _, lock := range page.Locks {
		out.Locks = append(out.Locks, lockBody(lock))
	}
	return &body[listBody]{out}, nil
}

type breakInput struct {
	Body struct {
		Name   string `json:"name"`
		Token  Token  `json:"fencing_token" doc:"Token of the lease to break, as listed."`
		Reason string `json:"reason" minLength:"1" doc:"Told to the holder and logged; at most 1024 bytes."`
		Now    bool   `json:"now,omitempty" doc:"Free the name at once. Until its holder notices, two may act on what has no guard."`
	}
}

// BreakBody answers a break.
type BreakBody struct {
	Ended bool `json:"ended" doc:"The lease has ended. Otherwise its holder was asked to let go."`
}

func (s *service) breakLease(ctx context.Context, in *breakInput) (*body[BreakBody], error) {
	b := locktable.Break{
		Name: in.Body.Name, Reason: in.Body.Reason, Now: in.Body.Now,
	}
	b.Token = guard.Token(in.Body.Token)
	ended, err := s.cell.Break(ctx, b)
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[BreakBody]{BreakBody{ended}}, nil
}
