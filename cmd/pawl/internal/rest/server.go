package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Cell is what the HTTP interface asks; *cell.Cell is one.
type Cell interface {
	Info() cell.Info
	OpenSession(ctx context.Context, ttl time.Duration, label string) (session string, granted time.Duration, err error)
	RenewSession(ctx context.Context, session string, want time.Duration) (ttl time.Duration, err error)
	CloseSession(ctx context.Context, session string, givenUp bool) error
	Acquire(ctx context.Context, r cell.AcquireRequest) (cell.Lease, error)
	RenewLease(ctx context.Context, lease string, want time.Duration) (cell.Renewal, error)
	Release(ctx context.Context, lease string) error
	List(ctx context.Context, l locktable.List) (locktable.Page, error)
	Break(ctx context.Context, b locktable.Break) (locktable.Broken, error)
	Status(ctx context.Context) (cell.Status, error)
	Drill(ctx context.Context, lasts time.Duration) (cell.DrillReport, error)
}

// Options say what a handler serves. All but Metrics are required.
type Options struct {
	Cell  Cell
	Clock clock.Clock
	// Version and Store are shown in the status.
	Version, Store string
	// AllowedHost says which Host headers are answered; see HostCheck.
	AllowedHost func(host string) bool
	// Metrics answers /metrics.
	Metrics http.Handler
	// Authorizer lets callers in; nil: everybody is. The cell must be one that asks who
	// calls, then.
	Authorizer Authorizer
	// TLS and Auth are shown in the status.
	TLS, Auth bool
	Logger    *slog.Logger
}

// Authorizer lets callers in; *service.Service is one. Errors are *cell.RefusedError.
type Authorizer interface {
	Admit(ctx context.Context, verb string) (*access.Caller, error)
	// May refuses a caller that has a right on no name.
	May(ctx context.Context, verb string, r access.Right) error
	// Bytes waits until so many bytes of the caller's body may be read, Decoding
	// until they may be decoded.
	Bytes(ctx context.Context, n int) (give func(), err error)
	Decoding(ctx context.Context) (done func(), err error)
	Metrics(ctx context.Context) error
}

type handlers struct {
	cell           Cell
	version, store string
	tls, auth      bool
	clock          clock.Clock
	log            *slog.Logger
}

// writtenJSON is for answers: bodies of requests are read by the front.
var writtenJSON = huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: huma.DefaultJSONFormat.Unmarshal}

const (
	livePattern    = "GET /livez"
	readyPattern   = "GET /readyz"
	metricsPattern = "GET /metrics"
	openAPIPattern = "GET /openapi.json"
)

// NewHandler returns the HTTP interface of a cell.
func NewHandler(o Options) (http.Handler, error) {
	s := &handlers{cell: o.Cell, version: o.Version, store: o.Store, tls: o.TLS, auth: o.Auth, clock: o.Clock, log: o.Logger}
	mux := http.NewServeMux()
	f := &front{mux: mux, authorizer: o.Authorizer, service: s, allowed: o.AllowedHost, now: o.Clock.Wall, clock: o.Clock, bodies: map[string]bodyRule{}}

	// The mux's own patterns name the operations that take a body.
	api := humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:   "pawl",
				Version: o.Version,
				Description: "Locks and leases with fencing tokens. " +
					"Ids of sessions and leases are capabilities: a caller of the same identity that knows one may act on it. " +
					"Where callers prove who they are they do so by \"Authorization: Bearer CREDENTIAL\" or by a client certificate.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
			},
		},
		// The second is what application/problem+json is looked up by.
		Formats:                      map[string]huma.Format{"application/json": writtenJSON, "json": writtenJSON},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	})
	s.register(api, f.bodies)

	description, err := json.Marshal(api.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("describe the HTTP interface: %w", err)
	}
	mux.HandleFunc(openAPIPattern, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(description)
	})
	mux.HandleFunc(livePattern, s.live)
	mux.HandleFunc(readyPattern, s.ready)
	if o.Metrics != nil {
		mux.Handle(metricsPattern, o.Metrics)
	}

	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(locktable.Denied, "the request comes from another origin").write(w)
	}))
	return bounded(cross.Handler(f), f.now), nil
}

// live says that the process answers. Whether it serves is readiness: killing a
// server because its store is away would help nobody.
func (s *handlers) live(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "ok")
}

// ready says that requests are worth sending here: this server is the active
// one, or knows the active one and sends callers there.
func (s *handlers) ready(w http.ResponseWriter, _ *http.Request) {
	info := s.cell.Info()
	switch {
	case info.Active:
		plain(w, http.StatusOK, "ok: active")
	case info.ActiveHTTP != "" || info.ActiveLink != "":
		plain(w, http.StatusOK, "ok: standby")
	default:
		plain(w, http.StatusServiceUnavailable, "not ready: no server of the cell is known to be active")
	}
}

func plain(w http.ResponseWriter, code int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, line)
}
