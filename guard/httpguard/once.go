package httpguard

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// errOnce ends what net/http would repeat.
var errOnce = errors.New("httpguard: the request may have arrived and is not sent again")

// sent tells what is known of a request's way.
type sent struct {
	// asked says that the transport tells of its connections, and looked for one. begun says
	// that one was found: a part of the request may have arrived.
	asked, begun atomic.Bool
	// http2 and headers are of the present try.
	http2, headers atomic.Bool

	mu sync.Mutex
	// conn is that of the present try, where it keeps the times of its writes.
	conn *stamped
	// whole is when the last part of the request was handed to the connection; zero: it was
	// not.
	whole time.Time
}

// nothing reports that it is certain that nothing of the request arrived.
func (s *sent) nothing() bool { return s.asked.Load() && !s.begun.Load() }

// last is when the last byte of a request that is not sent on was written, at the latest.
func (s *sent) last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || s.whole.IsZero() {
		return now()
	}
	if wrote := s.conn.last(); wrote.After(s.whole) {
		return wrote
	}
	return s.whole
}

// stamped is a connection that keeps when something was written to it last.
type stamped struct {
	net.Conn
	begun   time.Time
	writing atomic.Int64
	wrote   atomic.Int64 // nanoseconds after begun
}

// Write implements net.Conn.
func (c *stamped) Write(p []byte) (int, error) {
	c.writing.Add(1)
	n, err := c.Conn.Write(p)
	c.wrote.Store(int64(now().Sub(c.begun)))
	c.writing.Add(-1)
	return n, err
}

// last is the time of the last write; of one that goes on, now.
func (c *stamped) last() time.Time {
	if c.writing.Load() > 0 {
		return now()
	}
	return c.begun.Add(time.Duration(c.wrote.Load()))
}

// once returns a copy of req that net/http sends at most once, and what became of it.
//
// net/http sends a request again, by itself, when a connection that it used before breaks
// before the answer begins: one that it holds for idempotent, by its method (GET, HEAD,
// OPTIONS, TRACE) or by the header Idempotency-Key, when it has no body or one that
// GetBody gives again. It may have taken effect by then, and its repetition may arrive after
// the next holder's first. So:
//
//   - A request that usually has no body gets one that is empty, which nobody gives again.
//     net/http finds it empty and sends none.
//   - The two headers get the names that they have in HTTP/2, in lower case, under which
//     net/http does not look for them. On the wire they are the same.
//   - GetBody stays for the case in which nothing was written. Over HTTP/2 it refuses once
//     headers were, as a server may have done what it then breaks off with an error. Without
//     a body such a request is sent again only after GOAWAY, REFUSED_STREAM or
//     PROTOCOL_ERROR, by which the server says that it did not take the request.
//
// alive says why nothing may be sent any more; nil: it may. The copy shares the header, which
// once may change: it is the caller's of once.
func once(req *http.Request, alive func() error) (*http.Request, *sent) {
	s := &sent{}
	out := req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { s.asked.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			s.begun.Store(true)
			conn := info.Conn
			c, ok := conn.(*tls.Conn)
			s.http2.Store(ok && c.ConnectionState().NegotiatedProtocol == "h2")
			if ok {
				conn = c.NetConn()
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.conn, _ = conn.(*stamped)
			s.whole = time.Time{}
		},
		WroteHeaders: func() { s.headers.Store(true) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.whole = now()
			}
		},
	}))
	for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := out.Header[key]; ok {
			delete(out.Header, key)
			out.Header[lower[key]] = values
		}
	}
	if out.Body == nil || out.Body == http.NoBody {
		switch out.Method {
		case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete, http.MethodTrace:
			out.Body, out.GetBody, out.ContentLength = emptyBody{}, nil, 0
		}
		return out, s
	}
	if again := req.GetBody; again != nil {
		out.GetBody = func() (io.ReadCloser, error) {
			if err := alive(); err != nil {
				return nil, err
			}
			if s.http2.Load() && s.headers.Load() {
				return nil, errOnce
			}
			return again()
		}
		switch out.Method {
		case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			out.GetBody = nil
		}
	}
	return out, s
}

var lower = map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"}

// emptyBody is a body of no bytes that is not [http.NoBody].
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// always says that a request may be sent.
func always() error { return nil }

// until says why ctx has ended; nil: it has not.
func until(ctx context.Context) func() error {
	return func() error {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		return nil
	}
}
