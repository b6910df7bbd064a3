package rest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/wire"
)

// Problem is the body of every refusal (RFC 9457) with members of our own.
type Problem struct {
	Type   string `json:"type" doc:"Always about:blank; reason tells one problem from another."`
	Title  string `json:"title"`
	Status int    `json:"status" format:"int32"`
	Detail string `json:"detail"`
	Reason string `json:"reason" enum:"invalid,unauthenticated,denied,gone,held,conflict,token_mismatch,exhausted,unavailable,store_rolled_back"`
	// Holder is set when the reason is held.
	Holder *HolderBody `json:"holder,omitempty"`
	// OwnSession is set when the reason is held and the holder is a lease of the
	// session that asked.
	OwnSession bool `json:"own_session,omitempty" doc:"The holder is a lease of the session that the request names. Absent otherwise."`
	// ClaimOnlyFor is set when the reason is held and the acquire does not claim.
	ClaimOnlyFor *Duration `json:"claim_only_for,omitempty" doc:"For how long the name is closed to acquires that do not claim, such as this one. Absent: that does not keep it."`
	// RetryAfter is set when the reason is exhausted and the time is known.
	RetryAfter *Duration `json:"retry_after,omitempty"`
	// ActiveHTTP is set when the reason is unavailable and another server is
	// known to be the active one.
	ActiveHTTP string `json:"active_http,omitempty" doc:"The active server. With the status 307 the request is to be repeated there: the header Location says where."`
}

// Error implements error.
func (p *Problem) Error() string { return p.Reason + ": " + p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	if p.Status == http.StatusUnauthorized {
		return http.Header{"Www-Authenticate": {`Bearer realm="pawl"`}}
	}
	if p.RetryAfter == nil {
		return nil
	}
	seconds := math.Ceil(time.Duration(*p.RetryAfter).Seconds())
	return http.Header{"Retry-After": {strconv.Itoa(int(max(seconds, 1)))}}
}

const problemType = "application/problem+json"

var statusOf = map[locktable.Reason]int{
	locktable.Invalid:         http.StatusBadRequest,
	locktable.Unauthenticated: http.StatusUnauthorized,
	locktable.Denied:          http.StatusForbidden,
	locktable.Gone:            http.StatusNotFound,
	locktable.Held:            http.StatusConflict,
	locktable.Conflict:        http.StatusConflict,
	locktable.TokenMismatch:   http.StatusPreconditionFailed,
	locktable.Exhausted:       http.StatusTooManyRequests,
	locktable.Unavailable:     http.StatusServiceUnavailable,
	locktable.RolledBack:      http.StatusServiceUnavailable,
	locktable.Cancelled:       http.StatusServiceUnavailable,
}

func problem(reason locktable.Reason, detail string) *Problem {
	status := statusOf[reason]
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: detail, Reason: string(reason),
	}
}

func invalid(detail string) *Problem { return problem(locktable.Invalid, detail) }

// refusal turns what the cell answered into a problem.
func (s *handlers) refusal(err error) error {
	var r *cell.RefusedError
	if !errors.As(err, &r) {
		// The caller is gone, or the cell is about to be.
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			s.log.Error("a request ended in an error of an unknown kind", "error", err)
		}
		return problem(locktable.Unavailable, "the request ended without an answer; whether it took effect is unknown")
	}
	p := problem(r.Reason, r.Message)
	if p.Status == 0 {
		p = problem(locktable.Unavailable, r.Message)
	}
	switch r.Reason {
	case locktable.Held:
		if r.Holder != nil {
			h := HolderOf(wire.Holder(*r.Holder))
			p.Holder, p.OwnSession = &h, r.OwnSession
		}
		if r.ClaimOnly > 0 {
			d := Duration(r.ClaimOnly)
			p.ClaimOnlyFor = &d
		}
	case locktable.Exhausted:
		if r.RetryAfter > 0 {
			d := Duration(r.RetryAfter)
			p.RetryAfter = &d
		}
	case locktable.Unavailable:
		if info := s.cell.Info(); !info.Active {
			p.ActiveHTTP = info.ActiveHTTP
		}
	case locktable.Cancelled:
		p.Reason = string(locktable.Unavailable)
	}
	return p
}

// huma's own refusals become ours: whatever does not fit the description of a
// request is invalid. Values are not echoed, they may be capabilities.
func init() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		if status >= http.StatusInternalServerError {
			return problem(locktable.Unavailable, msg)
		}
		parts := make([]string, 0, len(errs))
		for _, err := range errs {
			var d *huma.ErrorDetail
			if errors.As(err, &d) {
				parts = append(parts, complaint(d))
			} else if err != nil {
				parts = append(parts, err.Error())
			}
		}
		if len(parts) == 0 {
			parts = append(parts, msg)
		}
		return invalid(strings.Join(parts, "; "))
	}
}

// write sends a problem where huma is not in charge.
func (p *Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", problemType)
	for k, v := range p.GetHeaders() {
		w.Header()[k] = v
	}
	w.WriteHeader(p.Status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(p) // the client is gone, and nobody else to tell
}
