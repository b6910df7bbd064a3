package httpguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/pawlproject/pawl/guard"
)

// Lease is what a request is sent under. The SDK's *pawl.Lease is one, where it has one
// name.
type Lease interface {
	// Fence is what the guard is shown.
	Fence(name ...string) guard.Fence
	// Context ends with the lease. Its cause says why.
	Context() context.Context
}

// ErrRedirected: the service sent the request on to another host, which is not shown the
// fence. Nothing was sent there.
var ErrRedirected = errors.New("httpguard: redirected to another host")

// ErrUnreachable: no connection to the guard was found to send the request on. The error is
// [ErrBusy], too.
var ErrUnreachable = errors.New("no connection to the guard")

// Transport returns a transport that sends requests under a lease, through next; nil:
// [http.DefaultTransport]. To each it adds the lease's fence, in the header Fencing-Token,
// which is the guard's whole interest.
//
//   - When the lease's context ends nothing is sent any more, and what is on its way is cut
//     off. The error is the context's, with its cause.
//   - net/http sends no request a second time by itself, whatever its method and headers,
//     unless nothing of it was written. [http.Client] follows a redirect on the same host
//     with a request of its own, which shows the fence, too; to another host the error is
//     [ErrRedirected].
//   - The refusals of a guard are errors and not answers: guard.ErrStale (a
//     *guard.StaleError), guard.ErrForeign, guard.ErrMalformed, and [ErrBusy]. Nothing was
//     done then. They name the resource and the token; a refusal that does not, or names
//     others, is the answer of a service that something else has refused.
//   - An answer that was lost is guard.ErrUnknown: the request may have taken effect, or may
//     do so later. ErrBusy with [ErrUnreachable] says that it was not sent. For that next has
//     to tell of its connections by net/http/httptrace; of one that does not, every error is
//     guard.ErrUnknown.
//
// All other answers are handed on, whatever their status. A body that breaks off is the
// caller's to notice.
func Transport(next http.RoundTripper, lease Lease) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{next: next, lease: lease}
}

type transport struct {
	next  http.RoundTripper
	lease Lease
	own   bool // asks the guard's own paths
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.send(req)
	if err != nil && req.Body != nil {
		_ = req.Body.Close() // as every transport must, sent or not
	}
	return res, err
}

func (t *transport) send(req *http.Request) (*http.Response, error) {
	f := t.lease.Fence()
	value, err := Format(f)
	if err != nil {
		return nil, err
	}
	held := t.lease.Context()
	if err := until(held)(); err != nil {
		return nil, fmt.Errorf("httpguard: not sent, the lease is over: %w", err)
	}
	if from := req.Response; from != nil && from.Request != nil &&
		(from.Request.URL.Host != req.URL.Host || from.Request.URL.Scheme != req.URL.Scheme) {
		return nil, fmt.Errorf("%w, %.255q", ErrRedirected, req.URL.Host)
	}

	ctx, cancel := context.WithCancelCause(req.Context())
	detach := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	end := func() { detach(); cancel(nil) }
	mine := req.WithContext(ctx)
	if mine.Header = req.Header.Clone(); mine.Header == nil {
		mine.Header = http.Header{}
	}
	mine.Header.Set(TokenHeader, value)
	out, way := once(mine, until(ctx))
	res, err := t.next.RoundTrip(out)
	if err != nil {
		err = lost(ctx, way, err)
		end()
		return nil, err
	}
	if err := errorOf(f, res, t.own); err != nil {
		end()
		return nil, err
	}
	if _, both := res.Body.(io.Writer); both {
		// The protocol was switched. The lease cuts what comes of it.
		context.AfterFunc(ctx, func() { _ = res.Body.Close() })
		return res, nil
	}
	res.Body = &lasting{ReadCloser: res.Body, end: end}
	return res, nil
}

// lost says what is known of a request without an answer.
func lost(ctx context.Context, way *sent, err error) error {
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ended(ctx), err)
	}
	switch {
	case !way.nothing():
		return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	case ctx.Err() != nil:
		return fmt.Errorf("httpguard: not sent: %w", err)
	}
	return fmt.Errorf("%w: %w: %w", ErrBusy, ErrUnreachable, err)
}

// lasting is a body whose end is that of the request.
type lasting struct {
	io.ReadCloser
	end  func()
	once sync.Once
}

// Read implements io.Reader.
func (b *lasting) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(b.end)
	}
	return n, err
}

// Close implements io.Closer.
func (b *lasting) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.end)
	return err
}
