package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/wire"
)

// operation registers one, and sees to what is the same for all of them: the
// refusals that may come, and that huma reads no body. It would read one several
// times over, and before anybody's turn; the front has done it.
func operation[I, O any](
	api huma.API, bodies map[string]bodyRule, method, path, id, summary string, refusals []int,
	rule bodyRule, do func(context.Context, *I, object) (*O, error),
) {
	if method+" "+path != statusPattern {
		refusals = append([]int{http.StatusTemporaryRedirect}, refusals...)
	}
	op := huma.Operation{
		OperationID: id,
		Method:      method,
		Path:        path,
		Summary:     summary,
		Errors: append([]int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable,
		}, refusals...),
		Responses: map[string]*huma.Response{},
	}
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		b, _ := ctx.Value(bodyKey{}).(object)
		return do(ctx, in, b)
	})
	if rule.empty != nil {
		api.OpenAPI().Paths[path].Post.RequestBody = &huma.RequestBody{
			Required: !rule.optional,
			Content: map[string]*huma.MediaType{"application/json": {
				Schema: api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(rule.empty()).Elem(), true, rule.name),
			}},
		}
	}
	// huma describes what its own errors would be; ours have other statuses.
	delete(op.Responses, "422")
	delete(op.Responses, "500")
	bodies[method+" "+path] = rule
}

// bodyKey is where a context has the body of its request, an object.
type bodyKey struct{}

// bodyRule says which body a request has. The zero value is none.
type bodyRule struct {
	// empty makes what the body is read into; nil: there is none.
	empty func() object
	// name is that of its description.
	name string
	// optional: the path can be enough.
	optional bool
	// most is how many bytes it may have.
	most int
	// right is what a caller must have on some name, or nothing of the body is read;
	// nil: none. verb is what the caller is said to have tried.
	right *access.Right
	verb  string
}

// with has a request's body, of a known type, given to an operation.
func with[I, O any, B object](do func(context.Context, *I, B) (*O, error)) func(context.Context, *I, object) (*O, error) {
	return func(ctx context.Context, in *I, b object) (*O, error) { return do(ctx, in, b.(B)) }
}

// without is for an operation without a body.
func without[I, O any](do func(context.Context, *I) (*O, error)) func(context.Context, *I, object) (*O, error) {
	return func(ctx context.Context, in *I, _ object) (*O, error) { return do(ctx, in) }
}

func (s *handlers) register(api huma.API, bodies map[string]bodyRule) {
	hold, breaks, admin := access.Hold, access.Break, access.Admin
	gone := []int{http.StatusNotFound}
	renewal := bodyRule{empty: func() object { return &renewBody{} }, name: "RenewBody", optional: true, most: SmallBodyMax}
	operation(api, bodies, http.MethodPost, "/v1/sessions", "open-session", "Open a session", nil, bodyRule{
		empty: func() object { return &openSessionBody{} }, name: "Open-sessionRequest", most: SmallBodyMax, right: &hold, verb: "open",
	}, with(s.openSession))
	operation(api, bodies, http.MethodPost, "/v1/sessions/{session}/renew", "renew-session",
		"Renew a session and all its leases", gone, renewal, with(s.renewSession))
	operation(api, bodies, http.MethodDelete, "/v1/sessions/{session}", "close-session",
		"Close a session and release all its leases", gone, bodyRule{}, without(s.closeSession))
	operation(api, bodies, http.MethodPost, "/v1/leases", "acquire", "Acquire a lease", []int{http.StatusNotFound, http.StatusConflict}, bodyRule{
		empty: func() object { return &acquireBody{} }, name: "AcquireBody", most: BodyMax, right: &hold, verb: "acquire",
	}, with(s.acquire))
	operation(api, bodies, http.MethodPost, "/v1/leases/{lease}/renew", "renew-lease",
		"Renew the session of a lease", gone, renewal, with(s.renewLease))
	operation(api, bodies, http.MethodDelete, "/v1/leases/{lease}", "release",
		"Release a lease", gone, bodyRule{}, without(s.release))
	operation(api, bodies, http.MethodGet, "/v1/locks", "list",
		"List names that are held or waited for", nil, bodyRule{}, without(s.list))
	operation(api, bodies, http.MethodPost, "/v1/break", "break", "Break a lease", []int{http.StatusPreconditionFailed}, bodyRule{
		empty: func() object { return &breakRequest{} }, name: "BreakRequest", most: breakBodyMax, right: &breaks, verb: "break",
	}, with(s.breakLease))
	operation(api, bodies, http.MethodPost, "/v1/drill", "drill",
		"Have the cell answer as one that lost its quorum, and tell who did not live through it", []int{http.StatusConflict}, bodyRule{
			empty: func() object { return &drillRequest{} }, name: "DrillRequest", most: SmallBodyMax, right: &admin, verb: "drill",
		}, with(s.drill))
	operation(api, bodies, http.MethodGet, "/v1/status", "status",
		"Show the state of the cell", nil, bodyRule{}, without(s.status))
}

type body[T any] struct{ Body T }

type empty struct{}

// SessionBody answers the opening and every renewal.
type SessionBody struct {
	Session string   `json:"session"`
	TTL     Duration `json:"ttl" doc:"What this request is good for as a renewal, from when it was sent."`
}

type openSessionBody struct {
	TTL   *Duration `json:"ttl,omitempty" doc:"1s to 24h; 15s when absent."`
	Label string    `json:"label,omitempty" doc:"Shown to others; at most 256 bytes."`
}

func (b *openSessionBody) field(key string, r *reader) (err error) {
	switch key {
	case "ttl":
		err = given(&b.TTL, r)
	case "label":
		b.Label, err = r.text()
	default:
		err = errUnknownKey
	}
	return err
}

func (*openSessionBody) check() error { return nil }

func (s *handlers) openSession(ctx context.Context, _ *empty, in *openSessionBody) (*body[SessionBody], error) {
	ttl, err := ttlOf(in.TTL)
	if err != nil {
		return nil, invalid(err.Error())
	}
	id, granted, err := s.cell.OpenSession(ctx, ttl, in.Label)
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
	return time.Duration(*d), bounds.ValidTTL(time.Duration(*d))
}

type sessionInput struct {
	Session string `path:"session" doc:"Id of a session."`
}

// renewBody may go with a renewal.
type renewBody struct {
	TTL *Duration `json:"ttl,omitempty" doc:"Another TTL from now on, 1s to 24h; absent: the one that was asked for last."`
}

func (b *renewBody) field(key string, r *reader) error {
	if key != "ttl" {
		return errUnknownKey
	}
	return given(&b.TTL, r)
}

func (*renewBody) check() error { return nil }

func (s *handlers) renewSession(ctx context.Context, in *sessionInput, b *renewBody) (*body[SessionBody], error) {
	want, err := ttlOf(b.TTL)
	if err != nil {
		return nil, invalid(err.Error())
	}
	ttl, err := s.cell.RenewSession(ctx, in.Session, want)
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[SessionBody]{SessionBody{in.Session, Duration(ttl)}}, nil
}

func (s *handlers) closeSession(ctx context.Context, in *sessionInput) (*body[empty], error) {
	if err := s.cell.CloseSession(ctx, in.Session, false); err != nil {
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

func (s *handlers) renewLease(ctx context.Context, in *leaseInput, b *renewBody) (*body[RenewalBody], error) {
	want, err := ttlOf(b.TTL)
	if err != nil {
		return nil, invalid(err.Error())
	}
	l, err := s.cell.RenewLease(ctx, in.Lease, want)
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[RenewalBody]{RenewalBody{SessionBody{l.Session, Duration(l.TTL)}, l.Breaking, l.Reason}}, nil
}

func (s *handlers) release(ctx context.Context, in *leaseInput) (*body[empty], error) {
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

func (s *handlers) list(ctx context.Context, in *listInput) (*body[listBody], error) {
	if in.Name != "" && (in.Prefix != "" || in.PageToken != "") {
		return nil, invalid("name is given together with prefix or page_token; expected one of them")
	}
	l := locktable.List{Name: in.Name, Prefix: in.Prefix, Limit: bounds.PageMax}
	if in.Name != "" {
		if err := bounds.ValidName(in.Name); err != nil {
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
		out.Locks = append(out.Locks, LockOf(wire.Lock(lock)))
	}
	return &body[listBody]{out}, nil
}

type breakRequest struct {
	Name   string `json:"name"`
	Token  Token  `json:"fencing_token" doc:"Token of the lease to break, as listed."`
	Reason string `json:"reason" minLength:"1" doc:"Told to the holder and logged; at most 1024 bytes."`
	Now    bool   `json:"now,omitempty" doc:"Free the name at once. Until its holder notices, two may act on what has no guard."`

	name, reason bool // they are there
}

func (b *breakRequest) field(key string, r *reader) (err error) {
	switch key {
	case "name":
		b.name = true
		b.Name, err = r.text()
	case "fencing_token":
		err = r.into(&b.Token)
	case "reason":
		b.reason = true
		b.Reason, err = r.text()
	case "now":
		b.Now, err = r.truth()
	default:
		err = errUnknownKey
	}
	return err
}

func (b *breakRequest) check() error {
	var missing []string
	for _, f := range []struct {
		key   string
		there bool
	}{{"name", b.name}, {"fencing_token", b.Token != 0}, {"reason", b.reason}} {
		if !f.there {
			missing = append(missing, fmt.Sprintf("%q is missing", f.key))
		}
	}
	if len(missing) == 0 && b.Reason == "" {
		missing = append(missing, `"reason" is empty`)
	}
	if len(missing) > 0 {
		return errors.New(strings.Join(missing, "; "))
	}
	return nil
}

// BreakBody answers a break.
type BreakBody struct {
	Ended bool `json:"ended" doc:"The lease has ended. Otherwise its holder was asked to let go."`
	// RidesOn is set when the lease was one that may ride.
	RidesOn *Duration `json:"rides_on,omitempty" doc:"How long the holder may go on where it cannot be reached: a break does not stop it, a guard does that is claimed under a later lease. The name is closed for so long to acquires that do not claim. Absent: not beyond its deadline."`
}

// BreakOf answers a break after which the holder may go on for ridesOn.
func BreakOf(ended bool, ridesOn time.Duration) BreakBody {
	return BreakBody{Ended: ended, RidesOn: unlessZero(Duration(ridesOn))}
}

func (s *handlers) breakLease(ctx context.Context, _ *empty, in *breakRequest) (*body[BreakBody], error) {
	b := locktable.Break{Name: in.Name, Token: guard.Token(in.Token), Reason: in.Reason, Now: in.Now}
	broken, err := s.cell.Break(ctx, b)
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[BreakBody]{BreakOf(broken.Ended, broken.RidesOn)}, nil
}
