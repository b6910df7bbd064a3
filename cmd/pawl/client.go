package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/reach"
)

const (
	// callMax bounds a call, beside what it may wait for its turn.
	callMax = 10 * time.Second
	// takeOverMax is how long a command goes on asking servers that answer that
	// they do not serve: one of them may be taking over.
	takeOverMax = 8 * time.Second
	askAgain    = 200 * time.Millisecond
	// reachMax bounds how long a command that waits for its turn waits for a
	// server that cannot be reached.
	reachMax = 10 * time.Second
	// answerMax bounds an answer: a page of names, each with the largest value,
	// fits.
	answerMax = locktable.PageMax*(locktable.ValueMax+4<<10) + 4<<20
)

// client asks the servers of a cell, one after the other, until one serves.
type client struct {
	servers []string
	conns   map[string]*grpc.ClientConn
}

func newClient(cmd *cobra.Command, flag []string) (*client, error) {
	servers, err := serverList(cmd, flag)
	if err != nil {
		return nil, err
	}
	return &client{servers: servers, conns: map[string]*grpc.ClientConn{}}, nil
}

func (c *client) close() {
	for _, conn := range c.conns {
		_ = conn.Close() // nothing is under way
	}
}

func (c *client) at(server string) (linkpb.LinkClient, error) {
	conn, ok := c.conns[server]
	if !ok {
		var err error
		conn, err = grpc.NewClient("passthrough:///"+server,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(answerMax)),
			grpc.WithContextDialer(func(ctx context.Context, at string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", at)
			}),
			// A connection is asked for as often as a command asks.
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: askAgain, Multiplier: 1, MaxDelay: askAgain}, MinConnectTimeout: callMax}),
		)
		if err != nil {
			return nil, failed(exitUsage, "%q is no address of a server: %v", server, err)
		}
		c.conns[server] = conn
	}
	return linkpb.NewLinkClient(conn), nil
}

// call does what it is told with a server that serves. It goes to the next
// server when one cannot be reached and follows where one sends it. When none
// can be reached at all it gives up at once, or asks again as long as wait, which
// is what the request may wait for its turn, at most reachMax. again is true when
// an earlier try may have taken effect although its answer was lost.
func (c *client) call(ctx context.Context, wait time.Duration,
	do func(ctx context.Context, l linkpb.LinkClient, again bool) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, callMax+wait)
	defer cancel()
	patience, stop := context.WithTimeout(ctx, takeOverMax+wait)
	defer stop()
	reaching, enough := context.WithTimeout(ctx, min(wait, reachMax))
	defer enough()
	again := false
	next := slices.Clone(c.servers)
	for {
		var last error
		var nobody []*reach.Error
		answered := false
		for asked := 0; len(next) > 0 && asked < 2*len(c.servers)+2; asked++ {
			server := next[0]
			next = next[1:]
			l, err := c.at(server)
			if err != nil {
				return err
			}
			err = do(ctx, l, again)
			r := refusedOf(err)
			switch {
			case err == nil:
				return nil
			case ctx.Err() != nil:
				if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
					return cause
				}
				return failed(exitUnavailable, "no answer from %s in time; whether the request took effect is unknown", server)
			case r.GetReason() == linkpb.Reason_REASON_UNAVAILABLE:
				answered = true
				last = err
				if to := r.GetActiveLink(); to != "" && to != server {
					next = slices.Insert(next, 0, to)
				}
			case r == nil && status.Code(err) == codes.Unavailable:
				if none := reach.Of(server, err); none != nil {
					nobody = append(nobody, none)
					last = none
				} else {
					again, answered = true, true
					last = fmt.Errorf("%s: %s", server, status.Convert(err).Message())
				}
			default:
				return err
			}
		}
		if !answered && reaching.Err() != nil {
			return unreached(nobody)
		}
		select {
		case <-patience.Done():
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
				return cause
			}
			_, text := exitOf(last)
			return failed(exitUnavailable, "no server serves: %s", text)
		case <-after(ctx, askAgain):
		}
		next = slices.Clone(c.servers)
	}
}

// after is a pause that needs no clock of its own.
func after(ctx context.Context, d time.Duration) <-chan struct{} {
	ctx, cancel := context.WithTimeout(ctx, d)
	context.AfterFunc(ctx, cancel)
	return ctx.Done()
}

// boundedBy returns a context that ends after d.
func boundedBy(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// unreached says why no server could be reached at all.
func unreached(nobody []*reach.Error) error {
	texts, missing := make([]string, 0, len(nobody)), false
	for _, e := range nobody {
		texts = append(texts, e.Error())
		missing = missing || !e.Other
	}
	text := strings.Join(texts, "; ")
	if missing {
		text += "; is \"pawl serve\" running, and is --servers right?"
	}
	return failed(exitUnavailable, "%s", text)
}

// refusedOf finds the refusal in the answer to a call; nil when there is none.
func refusedOf(err error) *linkpb.Refused {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return nil
	}
	for _, d := range st.Details() {
		if r, ok := d.(*linkpb.RefusedDetail); ok {
			return r.GetRefused()
		}
	}
	return nil
}
