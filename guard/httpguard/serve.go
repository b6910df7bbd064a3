package httpguard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawlproject/pawl/guard"
)

// The paths that a guard answers by itself. All paths below /.pawl/ are the guard's.
const (
	ownPath = "/.pawl/"
	// ClaimPath takes POST with the header Fencing-Token, and answers 204 when no request
	// with a lower token is in flight any more. "Prefer: wait=SECONDS" has it wait no longer
	// than that.
	ClaimPath = ownPath + "claim"
	// SeenPath takes GET with the parameter r, a resource.
	SeenPath = ownPath + "seen"
)

// seenBody is what SeenPath answers. Token and cell are absent when the resource has seen
// none.
type seenBody struct {
	Resource string      `json:"resource"`
	Seen     guard.Token `json:"fencing_token,omitzero"`
	Cell     string      `json:"cell,omitempty"`
}

type fenceKey struct{}

// FenceFrom returns the fence of the guarded request that a handler serves, from the
// request's context, to be shown to the next guard. ok is false for a request that passed by
// the guard.
func FenceFrom(ctx context.Context) (f guard.Fence, ok bool) {
	f, ok = ctx.Value(fenceKey{}).(guard.Fence)
	return f, ok
}

// Middleware lets a request to next when its fence has not been overtaken, in these steps:
//
//  1. Without the header Fencing-Token: 428. GET, HEAD and OPTIONS pass by the guard, unless
//     the options say otherwise or they show X-HTTP-Method-Override or one of its kin.
//  2. A lower token than the resource has seen: 412, and next is not called.
//  3. A higher one: the mark rises, durably. The contexts of all requests in flight with
//     lower tokens end, with the cause [ErrSuperseded], what they still read of their bodies
//     fails, and their answers are cut off that are not taken within Linger. The last does
//     not hold under a server with a WriteTimeout, which bounds them already.
//  4. When next has returned for all of these, the request is let in. When that takes too
//     long the answer is 503 with Retry-After, and the resource stays closed.
//
// It answers [ClaimPath] and [SeenPath] as well. A request is in flight until next returns:
// what next leaves running after that, in a goroutine or on a connection that it has taken
// over (Hijack), is not waited for.
func (g *Gate) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.own(w, r) || g.passes(w, r, next) {
			return
		}
		f, err := g.o.fenceOf(r.Header)
		if err != nil {
			g.counts.refused(err)
			refuse(w, f, err)
			return
		}
		v, err := g.enter(r.Context(), f, g.o.Wait, true)
		if err != nil {
			refuse(w, f, err)
			return
		}
		defer v.leave(time.Time{})
		defer bounded(v.ctx, w, g.o.Linger)()
		r2 := r.WithContext(context.WithValue(v.ctx, fenceKey{}, f))
		if r.Body != nil && r.Body != http.NoBody {
			upload := &upload{ReadCloser: r.Body, w: w}
			defer upload.follow(v.ctx)()
			r2.Body = upload
		}
		next.ServeHTTP(w, r2)
	})
}

// bounded cuts an answer off a while after its request was overtaken: a caller that has
// stopped reading, as a holder does that is paused, keeps its handler waiting for ever. The
// function that it returns ends that.
func bounded(ctx context.Context, w http.ResponseWriter, linger time.Duration) (end func()) {
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && s.WriteTimeout > 0 {
		return func() {}
	}
	control, done := http.NewResponseController(w), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		if errors.Is(context.Cause(ctx), ErrSuperseded) {
			_ = control.SetWriteDeadline(now().Add(linger)) // some have none
		}
	})
	return func() {
		if !stop() {
			<-done
			_ = control.SetWriteDeadline(time.Time{}) // the connection is the next request's
		}
	}
}

// upload is the body of a request, whose reading fails when a higher token claims: a handler
// that waits for the rest of a body would not see its context end.
type upload struct {
	io.ReadCloser
	w  http.ResponseWriter
	mu sync.Mutex
	// read says that the end has been reached, cut that the connection was told to stop.
	read, cut bool
}

// follow cuts the upload when ctx ends. The function that it returns ends that.
func (u *upload) follow(ctx context.Context) (end func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		u.mu.Lock()
		defer u.mu.Unlock()
		// After the body's end the server reads on, to see its caller go, and would take
		// the deadline for that.
		if !u.read {
			u.cut = http.NewResponseController(u.w).SetReadDeadline(now()) == nil // some have none
		}
	})
	return func() {
		// After the handler's return the connection is the next request's.
		if !stop() {
			<-done
		}
	}
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.read = true
		if u.cut {
			u.w.Header().Set("Connection", "close")
		}
	}
	return n, err
}

// overrides reports that a request asks to be taken for one of another method. Some services
// take an underscore in a name for a hyphen.
func overrides(h http.Header) bool {
	for name := range h {
		switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
		case "x-http-method-override", "x-http-method", "x-method-override":
			return true
		}
	}
	return false
}

// passes serves a request that needs no fence, and shows none.
func (g *Gate) passes(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
	if g.o.GuardReads || len(r.Header.Values(TokenHeader)) > 0 || overrides(r.Header) {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		g.counts.passed.Add(1)
		next.ServeHTTP(w, r)
		return true
	}
	return false
}

// own answers the paths of the guard.
func (g *Gate) own(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, ownPath) {
		return false
	}
	want := map[string]string{ClaimPath: http.MethodPost, SeenPath: http.MethodGet}[r.URL.Path]
	switch {
	case want == "":
		answer(w, problem{Type: "about:blank", Status: http.StatusNotFound, Detail: "the guard has " + ClaimPath + " and " + SeenPath}, 0)
	case r.Method != want:
		w.Header().Set("Allow", want)
		answer(w, problem{Type: "about:blank", Status: http.StatusMethodNotAllowed, Detail: "expected " + want}, 0)
	case want == http.MethodPost:
		g.serveClaim(w, r)
	default:
		g.serveSeen(w, r)
	}
	return true
}

func (g *Gate) serveClaim(w http.ResponseWriter, r *http.Request) {
	f, err := g.o.fenceOf(r.Header)
	if err != nil {
		g.counts.refused(err)
		refuse(w, f, err)
		return
	}
	if err := g.claim(r.Context(), f, g.preferred(r.Header)); err != nil {
		refuse(w, f, err)
		return
	}
	w.Header().Set(SeenHeader, f.Token.String())
	w.WriteHeader(http.StatusNoContent)
}

// preferred is how long a claim waits: as long as the gate does, or less where the caller
// says "Prefer: wait=SECONDS" (RFC 7240).
func (g *Gate) preferred(h http.Header) time.Duration {
	text, ok := strings.CutPrefix(h.Get("Prefer"), "wait=")
	seconds, err := strconv.ParseUint(text, 10, 16)
	if !ok || err != nil {
		return g.o.Wait // what is not understood is ignored, as the RFC says
	}
	return min(time.Duration(seconds)*time.Second, g.o.Wait)
}

func (g *Gate) serveSeen(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Query().Get("r")
	if resource == "" {
		resource = g.o.Resource
	}
	f := guard.Fence{Resource: resource, Token: guard.Max, Cell: NoCell}
	if err := f.Validate(); err != nil {
		refuse(w, guard.Fence{}, fmt.Errorf("%w; expected ?r=RESOURCE", err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), marksMax)
	defer cancel()
	s, err := g.Seen(ctx, resource)
	if err != nil {
		refuse(w, guard.Fence{Resource: resource}, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(SeenHeader, s.Seen.String())
	_ = json.NewEncoder(w).Encode(seenBody{resource, s.Seen, s.Cell}) // the caller is gone
}
