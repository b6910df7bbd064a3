package httpguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/guard"
)

const (
	// bodyKept is how much of a body is received before the request is let in. A shorter
	// one is whole by then, and a slow sender keeps nobody waiting.
	bodyKept = 64 << 10
	// bodyMax bounds the time in which that much must come.
	bodyMax = 30 * time.Second
	// presentMax bounds the guarded requests whose bodies a proxy receives or has.
	presentMax = 4_096
	// connectMax bounds the finding of a connection to the upstream.
	connectMax = 10 * time.Second
)

// errLate: the upstream has not answered within the gate's Linger.
var errLate = errors.New("the upstream has not answered in time")

// Proxy returns a reverse proxy to upstream, behind the gate, for a service that cannot
// guard itself. It does what [Gate.Middleware] does, and differs in what it knows of the end
// of a request:
//
//  1. A body of up to 64 KiB is received first, so that a slow sender is not in flight.
//  2. The request is let in, and forwarded with its fence. From here on it goes to its end,
//     also if the caller has gone: cutting the connection would not stop the upstream, and
//     nobody would learn when it has stopped.
//  3. It has ended when the whole answer has come. Work that the upstream does after its
//     answer is not waited for.
//  4. An upstream that takes longer than the gate's Linger is cut off, or it breaks the
//     connection after a part of the request was sent. It may still be at work. So the
//     resource is closed to higher tokens until Linger has passed since the last byte was
//     sent. The caller is told that the outcome is unknown. Requests of the same token go on.
//
// What the proxy promises rests on Linger where it loses sight, in step 4 and after a crash:
// the upstream has answered or given up a request within Linger from its last byte. All
// else rests on order.
//
// Requests to switch protocols (WebSocket), and CONNECT, are refused with 501, also when they
// show no fence: what comes over such a connection could not be told apart.
//
// next sends the requests; nil: a transport of net/http. One that does not tell of its
// connections by net/http/httptrace makes every error one whose outcome is unknown.
//
// The proxy sends no request a second time, unless nothing of it was written. log gets what
// goes wrong between proxy and upstream; nil: the standard logger.
func (g *Gate) Proxy(upstream *url.URL, next http.RoundTripper, errorLog *log.Logger) http.Handler {
	if next == nil {
		next = upstreamTransport()
	}
	if errorLog == nil {
		errorLog = log.Default()
	}
	p := &proxy{gate: g, next: next}
	p.reverse = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			r.Out.Header.Del("Expect") // the body is here already
			// A header that the caller gives to the connection alone has been taken out.
			if fence, ok := r.In.Header[TokenHeader]; ok {
				r.Out.Header[TokenHeader] = fence
			}
		},
		Transport:    p,
		BufferPool:   &buffers{},
		ErrorLog:     errorLog,
		ErrorHandler: p.failed,
	}
	return p
}

// upstreamTransport is like [http.DefaultTransport], but closes connections in a way that
// discards what is not sent: bytes of a request that was cut off must not arrive later.
func upstreamTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: connectMax}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.MaxIdleConnsPerHost = t.MaxIdleConns
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.SetLinger(0) // the end is in time then, as Linger says
		}
		if err != nil {
			return nil, err
		}
		return &stamped{Conn: conn, begun: now()}, nil
	}
	return t
}

type proxy struct {
	gate    *Gate
	next    http.RoundTripper
	reverse *httputil.ReverseProxy
	present atomic.Int64
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := p.gate
	if g.own(w, r) {
		return
	}
	if r.Method == http.MethodConnect || upgrades(r.Header) {
		answer(w, problem{Type: TypeUpgrade, Status: http.StatusNotImplemented, Detail: "the guard does not let protocols be switched"}, 0)
		return
	}
	if g.passes(w, r, p.reverse) {
		return
	}
	f, err := g.o.fenceOf(r.Header)
	if err != nil {
		g.counts.refused(err)
		refuse(w, f, err)
		return
	}
	if p.present.Add(1) > presentMax {
		p.present.Add(-1)
		refuse(w, f, &busyError{why: "too many requests", after: time.Second})
		return
	}
	defer p.present.Add(-1)
	r, err = receive(w, r)
	if err != nil {
		answer(w, problem{Type: "about:blank", Status: http.StatusBadRequest, Detail: "the body did not come: " + err.Error()}, 0)
		return
	}
	if r.Body != nil {
		defer r.Body.Close() // a refused sender is not waited for
	}
	v, err := g.enter(r.Context(), f, g.o.Wait, true)
	if err != nil {
		refuse(w, f, err)
		return
	}
	trip := &trip{visit: v, linger: g.o.Linger, counts: &g.counts, control: http.NewResponseController(w)}
	trip.upload, _ = r.Body.(*coming)
	// A request that was not even sent ends here.
	defer trip.unsent()
	p.reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tripKey{}, trip)))
}

// buffers are what answers are copied by.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return p[:]
	}
	return make([]byte, bufferBytes)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferBytes]byte)(p)) }

// upgrades reports that a request asks for another protocol.
func upgrades(h http.Header) bool {
	for _, line := range h.Values("Connection") {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return true
			}
		}
	}
	return h.Get("Upgrade") != ""
}

// receive returns the request with a body whose beginning has been read. The server's own
// request keeps its body: by that the server knows what is left of it, which must not be
// taken for the next request.
func receive(w http.ResponseWriter, in *http.Request) (*http.Request, error) {
	if in.Body == nil || in.Body == http.NoBody {
		return in, nil
	}
	control := http.NewResponseController(w)
	// Where there is no such deadline the server's own bounds the reading.
	_ = control.SetReadDeadline(now().Add(bodyMax))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	rest := in.Body
	text, err := io.ReadAll(io.LimitReader(rest, bodyKept+1))
	if err != nil {
		return in, err
	}
	r := in.WithContext(in.Context()) // a copy, made when the trailers have come
	if len(text) > bodyKept {
		r.Body = &coming{first: text, rest: rest, control: control}
		return r, nil
	}
	r.Body = body{bytes.NewReader(text), rest}
	if len(r.Trailer) == 0 {
		r.ContentLength, r.TransferEncoding = int64(len(text)), nil
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	}
	return r, nil
}

type body struct {
	io.Reader
	io.Closer
}

// coming is a body of which the rest is still on its way.
type coming struct {
	first   []byte
	rest    io.ReadCloser
	control *http.ResponseController
	mu      sync.Mutex
	// over says that nothing more is read: the end has been reached, or Close was called.
	over bool
}

// Read implements io.Reader.
func (c *coming) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	n, err := c.rest.Read(p)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.over = true
	}
	return n, err
}

// cut ends the reading: a sender may have stopped, and what reads waits for ever. Only the
// first call does, which comes before the connection serves the next request.
func (c *coming) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over = true
		_ = c.control.SetReadDeadline(now()) // a connection without one is the server's to bound
	}
}

// Close implements io.Closer. The server's Close waits for a Read that goes on.
func (c *coming) Close() error {
	c.cut()
	return c.rest.Close()
}

type tripKey struct{}

// trip is a guarded request on its way to the upstream and back.
type trip struct {
	visit  *visit
	linger time.Duration
	counts *counts
	// control is that of the answer to the caller.
	control *http.ResponseController
	// upload is the body whose rest is still to come; nil: all of it is here.
	upload *coming
	way    *sent
	end    context.CancelFunc
}

// unsent ends the visit of a request that never went on its way.
func (t *trip) unsent() {
	if t.way == nil {
		t.visit.leave(time.Time{})
	}
}

// RoundTrip implements http.RoundTripper: it follows a request to its end.
func (p *proxy) RoundTrip(req *http.Request) (*http.Response, error) {
	t, guarded := req.Context().Value(tripKey{}).(*trip)
	if !guarded {
		out, _ := once(req, always)
		return p.next.RoundTrip(out)
	}
	// What happens to the caller must not end what is on its way.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(req.Context()), t.linger, errLate)
	out, way := once(req.WithContext(ctx), until(ctx))
	t.way, t.end = way, cancel
	if t.upload != nil {
		// net/http waits for its Read, also when the time is up.
		context.AfterFunc(ctx, t.upload.cut)
	}
	res, err := p.next.RoundTrip(out)
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		_ = res.Body.Close()
		err = errors.New("the upstream switched to a protocol that nobody asked for")
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		known := t.lost()
		cancel()
		if !known {
			return nil, fmt.Errorf("%w: %w", guard.ErrUnknown, err)
		}
		return nil, &busyError{why: "the upstream cannot be reached", after: time.Second, err: err}
	}
	a := &answering{body: res.Body, trip: t}
	ready := make(chan struct{})
	a.inTime = context.AfterFunc(ctx, func() { <-ready; a.late() })
	close(ready)
	res.Body = a
	return res, nil
}

// lost ends a trip that came to no answer. It reports whether it is certain that nothing of
// the request arrived.
func (t *trip) lost() (nothing bool) {
	if t.way.nothing() {
		t.visit.leave(time.Time{})
		return true
	}
	t.counts.unknown.Add(1)
	t.visit.leave(t.way.last().Add(t.linger))
	return false
}

// failed answers where the upstream did not.
func (p *proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	f, _ := p.gate.o.fenceOf(r.Header)
	_, guarded := r.Context().Value(tripKey{}).(*trip)
	if !guarded {
		err = fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	}
	if r.Context().Err() == nil {
		p.reverse.ErrorLog.Printf("%s %.255q: %v", r.Method, r.URL.Path, err)
	}
	refuse(w, f, err)
}

// answering is the body of an answer. The request has ended with it.
type answering struct {
	body io.ReadCloser
	trip *trip
	once sync.Once
	// inTime ends the waiting for late.
	inTime func() bool
}

// late ends a trip whose answer nobody reads: a caller that has stopped, as a holder does that
// is paused, keeps its connection for ever, and would keep its resource closed.
func (a *answering) late() {
	a.once.Do(func() {
		a.over(errLate)
		// The proxy closes the body before it ends the answer, and waits for this there.
		_ = a.trip.control.SetWriteDeadline(now()) // a connection without one is the server's to bound
	})
}

// Read implements io.Reader.
func (a *answering) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if err != nil {
		a.once.Do(func() { a.over(err) })
	}
	return n, err
}

// over ends the trip with what the reading of the answer ended with.
func (a *answering) over(err error) {
	defer a.trip.end()
	a.inTime()
	if errors.Is(err, io.EOF) {
		a.trip.visit.leave(time.Time{})
		return
	}
	a.trip.lost()
}

// Close implements io.Closer. The caller may have gone before the answer has come: the rest
// is read all the same, to know when the upstream has ended.
func (a *answering) Close() error {
	unread := false
	a.once.Do(func() { unread = true })
	if !unread {
		return a.body.Close()
	}
	go func() {
		_, err := io.Copy(io.Discard, a.body)
		if err == nil {
			err = io.EOF
		}
		a.over(err)
		_ = a.body.Close() // read to its end
	}()
	return nil
}
