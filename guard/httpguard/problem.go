package httpguard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/pawlproject/pawl/guard"
)

// The types of the problems (RFC 9457) that a guard answers with. The names are compared and
// never fetched.
const (
	problemBase = "https://pawlproject.github.io/problems/"
	// TypeStale, with 412: the resource has seen a higher token.
	TypeStale = problemBase + "stale-token"
	// TypeForeign, with 412: the resource is held to the tokens of another cell.
	TypeForeign = problemBase + "foreign-token"
	// TypeMissing, with 428: the request shows no fence.
	TypeMissing = problemBase + "token-required"
	// TypeMalformed, with 400: what it shows is no fence.
	TypeMalformed = problemBase + "malformed-token"
	// TypeBusy, with 503 and Retry-After: nothing was done, see [ErrBusy].
	TypeBusy = problemBase + "busy"
	// TypeUnknown, with 502 or 504: the request was sent to the upstream and no whole answer
	// came back.
	TypeUnknown = problemBase + "outcome-unknown"
	// TypeUpgrade, with 501: the proxy does not switch protocols.
	TypeUpgrade = problemBase + "no-upgrade"
)

const problemMedia = "application/problem+json"

// problemMax bounds the body of a problem that is read.
const problemMax = 64 << 10

// problem is the body of a refusal. Tokens are text, as a number of 53 bits does not survive
// every parser.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Resource string `json:"resource,omitempty"`
	Shown    string `json:"shown,omitempty"`
	Seen     string `json:"seen,omitempty"`
	Cell     string `json:"cell,omitempty"`
	SeenCell string `json:"seen_cell,omitempty"`
}

// problemOf is the answer for an error of the gate.
func problemOf(f guard.Fence, err error) (p problem, after time.Duration) {
	p = problem{Detail: err.Error(), Resource: f.Resource, Cell: f.Cell}
	if f.Token != 0 {
		p.Shown = f.Token.String()
	}
	stale, isStale := errors.AsType[*guard.StaleError](err)
	foreign, isForeign := errors.AsType[*guard.ForeignError](err)
	busy, isBusy := errors.AsType[*busyError](err)
	switch {
	case isStale:
		p.Type, p.Status, p.Seen = TypeStale, http.StatusPreconditionFailed, stale.Seen.String()
	case isForeign:
		p.Type, p.Status, p.SeenCell = TypeForeign, http.StatusPreconditionFailed, foreign.Seen
	case errors.Is(err, guard.ErrMissing):
		p.Type, p.Status = TypeMissing, http.StatusPreconditionRequired
		p.Detail = `expected the header ` + TokenHeader + `: "TOKEN";r="RESOURCE";cell="CELL"`
	case errors.Is(err, guard.ErrMalformed):
		p.Type, p.Status = TypeMalformed, http.StatusBadRequest
	case errors.Is(err, guard.ErrUnknown):
		p.Type, p.Status = TypeUnknown, http.StatusBadGateway
		if errors.Is(err, errLate) {
			p.Status = http.StatusGatewayTimeout
		}
	default:
		p.Type, p.Status, after = TypeBusy, http.StatusServiceUnavailable, time.Second
		if isBusy {
			after = busy.after
		}
	}
	return p, after
}

// refuse answers with a problem.
func refuse(w http.ResponseWriter, f guard.Fence, err error) {
	p, after := problemOf(f, err)
	answer(w, p, after)
}

func answer(w http.ResponseWriter, p problem, after time.Duration) {
	p.Title = http.StatusText(p.Status)
	h := w.Header()
	h.Set("Content-Type", problemMedia)
	h.Set("Cache-Control", "no-store")
	if p.Seen != "" {
		h.Set(SeenHeader, p.Seen)
	}
	if after > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(max(math.Ceil(after.Seconds()), 1)), 10))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller is gone
}

// errorOf reads the answer of a guard as the error that it stands for; nil: it is another
// answer, whose body has not been touched. Otherwise the body is closed. own says that a
// path of the guard's own was asked, which no service answers.
func errorOf(f guard.Fence, res *http.Response, own bool) error {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || media != problemMedia {
		return nil
	}
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusPreconditionFailed, http.StatusPreconditionRequired, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, problemMax))
	var p problem
	if err == nil && json.Unmarshal(text, &p) == nil {
		if err := p.err(f, res, own); err != nil {
			_ = res.Body.Close() // it has been read
			return err
		}
	}
	// It is the upstream's own: put back what was read.
	res.Body = &putBack{read: text, rest: res.Body, err: err}
	return nil
}

// err is the error that a problem stands for; nil: it is not about the fence.
//
// The service may hand on what another guard said to it, and may have done something by
// then. So a refusal is what names the resource and the token that were shown, as a gate
// does whenever it has read a fence. "No fence" and "no protocol switched" name none: these
// are handed on as answers. On a path of the guard's own a refusal may leave the names out.
func (p problem) err(f guard.Fence, res *http.Response, own bool) error {
	is := func(named, shown string) bool { return named == shown || own && named == "" }
	if p.Type != TypeUnknown && !(is(p.Resource, f.Resource) && is(p.Shown, f.Token.String())) {
		return nil
	}
	switch p.Type {
	case TypeStale:
		seen, err := guard.ParseToken(p.Seen)
		if err != nil || seen <= f.Token {
			return nil
		}
		return &guard.StaleError{Resource: f.Resource, Shown: f.Token, Seen: seen, Verdict: guard.Stale}
	case TypeForeign:
		return &guard.ForeignError{Resource: f.Resource, Shown: f.Cell, Seen: p.SeenCell}
	case TypeMissing:
		return fmt.Errorf("%w: %s", guard.ErrMissing, p.Detail)
	case TypeMalformed:
		return fmt.Errorf("%w: %s", guard.ErrMalformed, p.Detail)
	case TypeUnknown:
		return fmt.Errorf("%w: %s", guard.ErrUnknown, p.Detail)
	case TypeBusy:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return &busyError{why: p.Detail, after: time.Duration(min(max(seconds, 1), 3600)) * time.Second}
	}
	return nil
}

// putBack is a body of which the beginning has been read.
type putBack struct {
	read []byte
	rest io.ReadCloser
	err  error // of that reading
}

// Read implements io.Reader.
func (b *putBack) Read(p []byte) (int, error) {
	if len(b.read) > 0 {
		n := copy(p, b.read)
		b.read = b.read[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.rest.Read(p)
}

// Close implements io.Closer.
func (b *putBack) Close() error { return b.rest.Close() }
