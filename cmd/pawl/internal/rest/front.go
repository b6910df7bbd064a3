package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
)

const (
	// BodyMax bounds the bytes of an acquire's body: 64 names of the greatest length,
	// each byte of them written as \uXXXX, a value in plain base64 and all the rest fit.
	BodyMax = 288 << 10
	// SmallBodyMax bounds those of sessions, renewals and requests that take none,
	// breakBodyMax those of a break: a name and a reason, however they are written.
	SmallBodyMax = access.SmallMax
	breakBodyMax = 12 << 10
)

const (
	// bodyWait bounds the time that a body may take to arrive, and before it the time
	// that a large one waits for its turn; answerWait the time that a client may take
	// to read its answer.
	bodyWait   = 10 * time.Second
	answerWait = 30 * time.Second
)

// front is what stands before the operations: it makes sure that a request is
// for us and whole, and gives errors of the routing the shape of all others.
type front struct {
	mux        *http.ServeMux
	authorizer Authorizer
	service    *handlers
	allowed    func(host string) bool
	now        func() time.Time
	clock      clock.Clock
	// bodies says of each pattern which body it has.
	bodies map[string]bodyRule
	// spare are buffers for bodies that are large, *[]byte.
	spare sync.Pool
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Answers hold ids and foreign texts: they must not be cached, or taken for
	// a page.
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	h, pattern := f.mux.Handler(r)
	if path.Clean(r.URL.Path) != r.URL.Path {
		// The mux would send the caller to another path, without an empty part or
		// "..": an id that is missing must not become another request.
		h, pattern = http.NotFoundHandler(), ""
	}
	if pattern == "" {
		noRoute(w, r, h)
		return
	}
	// Health is asked for by address and by whatever name a balancer uses.
	if pattern != livePattern && pattern != readyPattern && !f.allowed(r.Host) {
		problem(locktable.Denied, "this server does not answer for the host "+clip(r.Host)+
			"; expected the loopback, the address it listens on, a host that it advertises or has a certificate for, or one given by --http-host").write(w)
		return
	}
	r, err := f.admit(r, pattern)
	if err != nil {
		f.problemOf(err).write(w)
		return
	}
	if f.toActive(w, r, pattern) {
		return
	}
	if p := f.checkQuery(r); p != nil {
		p.write(w)
		return
	}
	b, p := f.takeBody(w, r, pattern)
	if p != nil {
		p.write(w)
		return
	}
	// huma has nothing to read.
	r.Body, r.ContentLength = http.NoBody, 0
	if b != nil {
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, b))
	}
	f.mux.ServeHTTP(w, r)
}

// noRoute lets the mux say why, and says it in our words. A missing path is
// invalid, not gone: gone would tell a client that it has lost its lease.
func noRoute(w http.ResponseWriter, r *http.Request, h http.Handler) {
	said := verdict{header: http.Header{}, code: http.StatusOK}
	h.ServeHTTP(&said, r)
	p := invalid("there is nothing at this path; /openapi.json describes what there is")
	p.Status = said.code
	if allow := said.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		p.Detail = "this path does not take the method " + clip(r.Method) + "; expected " + allow
	}
	p.Title = http.StatusText(p.Status)
	p.write(w)
}

// verdict keeps status and header of an answer and drops the rest.
type verdict struct {
	header http.Header
	code   int
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) Write(b []byte) (int, error) { return len(b), nil }
func (v *verdict) WriteHeader(code int)        { v.code = code }

// checkQuery refuses what url.Values would hide: malformed pairs, repeated
// parameters and, because huma takes them for absent, empty ones.
func (f *front) checkQuery(r *http.Request) *Problem {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("the query is malformed: expected name=value pairs, percent-encoded")
	}
	for k, v := range q {
		if len(v) > 1 {
			return invalid("the query parameter " + clip(k) + " is there twice")
		}
		if v[0] == "" && k != "prefix" && k != "page_token" {
			return invalid("the query parameter " + clip(k) + " is empty")
		}
	}
	return nil
}

// takeBody reads and decodes the body before anything is decided. So the read deadline
// is over when a wait begins; if it passed during the wait, it would end the watch on
// the connection and with it the request. A body that is not small is read when its
// identity has room for it, decoded when its identity has a turn, and freed before the
// request is passed on.
//
//  1. A caller without the right on any name is refused; nothing is read.
//  2. A body whose length is too large is refused; nothing is read.
//  3. A small body is read and decoded at once: it costs as much as its head.
//  4. Any other waits for room, up to bodyWait, unread. It then has bodyWait to
//     arrive, and waits for its turn to be decoded, once.
func (f *front) takeBody(w http.ResponseWriter, r *http.Request, pattern string) (object, *Problem) {
	rule := f.bodies[pattern]
	most := max(rule.most, SmallBodyMax)
	if f.authorizer != nil && rule.right != nil {
		if err := f.authorizer.May(r.Context(), rule.verb, *rule.right); err != nil {
			return nil, f.problemOf(err)
		}
	}
	if rule.empty != nil && !rule.optional {
		if p := jsonType(r); p != nil {
			return nil, p
		}
	}
	if r.ContentLength > int64(most) {
		return nil, tooLarge(w, most)
	}
	ctl := http.NewResponseController(w)
	// expected bounds the bytes of the body. Where the length is not announced it is
	// one byte more than is allowed, so that a longer body is noticed.
	expected := int(r.ContentLength)
	if expected < 0 {
		expected = most + 1
	}
	large := expected > SmallBodyMax+1
	if large && f.authorizer != nil {
		give, p := f.wait(w, r, func(ctx context.Context) (func(), error) { return f.authorizer.Bytes(ctx, expected) })
		if p != nil {
			return nil, p
		}
		defer give()
		_ = ctl.SetReadDeadline(f.now().Add(bodyWait))
	}
	b := f.buffer(expected)
	if large {
		defer f.spare.Put(&b) // nothing that was decoded lies in it
	}
	n, err := io.ReadFull(r.Body, b)
	switch {
	case n > most:
		return nil, tooLarge(w, most)
	case err != nil && (r.ContentLength >= 0 || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)):
		return nil, invalid("the body did not arrive whole within 10s")
	}
	_ = ctl.SetReadDeadline(time.Time{})
	if large && f.authorizer != nil {
		done, p := f.wait(w, r, f.authorizer.Decoding)
		if p != nil {
			return nil, p
		}
		defer done()
	}
	return f.decode(r, rule, bytes.TrimSpace(b[:n]))
}

// buffer returns one for so many bytes.
func (f *front) buffer(n int) []byte {
	if n <= SmallBodyMax+1 {
		return make([]byte, n)
	}
	if b, _ := f.spare.Get().(*[]byte); b != nil {
		return (*b)[:n]
	}
	return make([]byte, n, BodyMax+1)
}

// decode makes of a body what its request takes.
func (f *front) decode(r *http.Request, rule bodyRule, b []byte) (object, *Problem) {
	none := len(b) == 0 || string(b) == "{}"
	switch {
	case rule.empty == nil && !none:
		return nil, invalid("this request takes no body")
	case rule.empty == nil:
		return nil, nil
	case rule.optional && none:
		return rule.empty(), nil
	case rule.optional:
		if p := jsonType(r); p != nil {
			return nil, p
		}
	}
	into := rule.empty()
	if err := decodeStrict(b, into); err != nil {
		return nil, invalid(err.Error())
	}
	return into, nil
}

// wait takes what may have to be waited for, for bodyWait at most.
func (f *front) wait(w http.ResponseWriter, r *http.Request, take func(context.Context) (func(), error)) (give func(), p *Problem) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go func() {
		late := f.clock.NewTimer()
		late.Reset(bodyWait)
		defer late.Stop()
		select {
		case <-late.C():
			cancel()
		case <-over:
		}
	}()
	give, err := take(ctx)
	switch {
	case err == nil:
		return give, nil
	case ctx.Err() != nil:
		w.Header().Set("Connection", "close")
		p = problem(locktable.Exhausted, "this identity has too many large requests under way; ask again, or with fewer at once")
		again := Duration(time.Second)
		p.RetryAfter = &again
		return nil, p
	}
	return nil, f.problemOf(err)
}

func (f *front) problemOf(err error) *Problem {
	p := new(Problem)
	errors.As(f.service.refusal(err), &p) // it always is one
	return p
}

func tooLarge(w http.ResponseWriter, most int) *Problem {
	w.Header().Set("Connection", "close") // nobody reads the rest
	return invalid(fmt.Sprintf("the body is too large; expected at most %d KiB", most>>10))
}

// jsonType makes curl -d work without a header: curl sends the body as a form. Pages of
// other origins can send forms, so jsonType stands behind http.CrossOriginProtection.
func jsonType(r *http.Request) *Problem {
	t, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch t = strings.ToLower(strings.TrimSpace(t)); t {
	case "", "application/x-www-form-urlencoded", "application/json":
		r.Header.Set("Content-Type", "application/json")
		return nil
	}
	return invalid("the content-type is " + clip(t) + "; expected application/json")
}

// clip quotes nothing long in a message.
func clip(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

// HostCheck says which Host headers a server that listens on address accepts: the
// loopback; the host of the address; any of names; and, where the address is not a
// loopback, every numeric address. A page of another site that rebinds its name to us
// sends that name, so numeric addresses are safe.
func HostCheck(address string, names []string) func(host string) bool {
	known := map[string]bool{"localhost": true}
	for _, n := range names {
		known[strings.ToLower(strings.TrimSuffix(n, "."))] = true
	}
	listen, _, err := net.SplitHostPort(address)
	if err != nil {
		listen = address
	}
	bound, err := netip.ParseAddr(listen)
	wide := listen == "" || err == nil && !bound.Unmap().IsLoopback()
	if err != nil && listen != "" {
		known[strings.ToLower(listen)] = true
	}
	return func(host string) bool {
		h := host
		if name, _, err := net.SplitHostPort(host); err == nil {
			h = name
		}
		h = strings.ToLower(strings.TrimSuffix(strings.Trim(h, "[]"), "."))
		if known[h] {
			return true
		}
		a, err := netip.ParseAddr(h)
		return err == nil && (wide || a.Unmap().IsLoopback())
	}
}

// bounded gives every request bodyWait for its body, until takeBody takes it. A request
// that is refused earlier keeps that deadline: the server reads the unwanted body
// before it answers, and would wait for one that never comes.
func bounded(h http.Handler, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not every writer has deadlines. The one for writing is left over from the
		// answer before this one.
		c := http.NewResponseController(w)
		_ = c.SetWriteDeadline(time.Time{})
		_ = c.SetReadDeadline(now().Add(bodyWait))
		h.ServeHTTP(&deadlineWriter{ResponseWriter: w, now: now}, r)
	})
}

// deadlineWriter gives a client a bounded time to take its answer, counted from
// the answer's first byte: before it the request may wait for a day.
type deadlineWriter struct {
	http.ResponseWriter
	now   func() time.Time
	begun bool
}

func (w *deadlineWriter) WriteHeader(code int) {
	w.begin()
	w.ResponseWriter.WriteHeader(code)
}

func (w *deadlineWriter) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

func (w *deadlineWriter) begin() {
	if !w.begun {
		w.begun = true
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.now().Add(answerWait))
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
