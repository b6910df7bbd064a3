package link

import (
	"cmp"
	"context"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
)

// waitForActive keeps a client that has patience while this server is not the active one.
// It returns where the client shall go, empty when it may be served, or told, here.
// A client that goes, or may not stay, is held no longer.
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

// sentTo is the last word to a client that shall go on with the active server.
func (s *Server) sentTo(link string) *linkpb.Closed {
	return &linkpb.Closed{Reason: linkpb.Reason_REASON_UNAVAILABLE, Message: cell.NotActive, ActiveLink: link}
}
