package rest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

// BodyMax bounds the bytes of a request's body: a value and 64 names of the
// greatest length fit, however they are written.
const BodyMax = 512 << 10

const (
	// bodyWait bounds the time that a body may take to arrive, answerWait the
	// time that a client may take to read its answer.
	bodyWait   = 10 * time.Second
	answerWait = 30 * time.Second
)

// front is what stands before the operations: it makes sure that a request is
// for us and whole, and gives errors of the routing the shape of all others.
type front struct {
	mux     *http.ServeMux
	door    Door
	service *service
	allowed func(host string) bool
	now     func() time.Time
	// takesBody tells the patterns that have a body from those that must not.
	takesBody map[string]bodyRule
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Answers hold ids and texts of others: nobody shall keep them, or take them for
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
		var p *Problem
		if errors.As(f.service.refusal(err), &p) {
			p.write(w)
		}
		return
	}
	if p := f.checkQuery(r); p != nil {
		p.write(w)
		return
	}
	if p := f.takeBody(w, r, pattern); p != nil {
		p.write(w)
		return
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

// takeBody reads the body before anything is decided, so that the read deadline
// is over when a wait begins: a deadline that strikes during the wait would end
// the watch on the connection, and with it the request.
func (f *front) takeBody(w http.ResponseWriter, r *http.Request, pattern string) *Problem {
	takes := f.takesBody[pattern]
	if takes == bodyWanted {
		if p := jsonType(r); p != nil {
			return p
		}
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, BodyMax+1))
	switch {
	case err != nil:
		return invalid("the body did not arrive whole within 10s")
	case len(b) > BodyMax:
		w.Header().Set("Connection", "close") // nobody reads the rest
		return invalid("the body is too large; expected at most 512 KiB")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	rest := bytes.TrimSpace(b)
	none := len(rest) == 0 || string(rest) == "{}"
	switch {
	case takes == bodyRefused && !none:
		return invalid("this request takes no body")
	case takes == bodyRefused, takes == bodyAllowed && none:
		r.Body = http.NoBody
		r.ContentLength = 0
		return nil
	case takes == bodyAllowed:
		if p := jsonType(r); p != nil {
			return p
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	r.ContentLength = int64(len(b))
	return nil
}

// jsonType lets curl -d work without a header: curl calls the body a form. That
// a form can be sent across origins is why this stands behind
// http.CrossOriginProtection.
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

// HostCheck says which Host headers a server that listens on address answers
// for: the loopback; the host of the address; any of names; and, where the
// address is not a loopback, every address in digits. A page of another site
// that rebinds its name to us sends its name, so digits are no danger.
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

// bounded gives every request bodyWait for its body, until takeBody has it. A
// request that is refused before keeps that deadline: the server reads a body
// that nobody wanted, before it answers, and would wait for one that never comes.
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
