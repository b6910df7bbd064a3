package link

import (
	"cmp"
	"context"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
)

// waitForActive holds a client that is willing to wait while this server is not active.
// It returns the server to redirect to; empty: serve or refuse the client here.
// The wait ends when the client goes or loses its admission.
func (s *Server) waitForActive(ctx context.Context, d *streamCaller, h *linkpb.Hello, ended <-chan error, over <-chan struct{}) (to string, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	let := make(chan string, 1)
	go func() { let <- s.cell.WaitForActive(ctx, h.Unreached, time.Duration(h.WaitNano)) }()
	select {
	case to := <-let:
		return to, ctx.Err()
	case err := <-ended:
		return "", cmp.Or(err, ctx.Err())
	case why := <-d.out:
		return "", s.evicted(why)
	case <-over:
		return "", s.evicted(access.ErrRevoked)
	}
}

// sentTo closes a stream and redirects its client to the active server.
func (s *Server) sentTo(link string) *linkpb.Closed {
	return &linkpb.Closed{Reason: linkpb.Reason_REASON_UNAVAILABLE, Message: cell.NotActive, ActiveLink: link}
}
