package client

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/internal/bearer"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/dialerr"
	"github.com/pawlproject/pawl/internal/protolimit"
)

const (
	// CallMax bounds a call, beside what it may wait for its turn.
	CallMax = 10 * time.Second
	// takeOverMax is how long a command goes on asking servers that answer that
	// they do not serve: one of them may be taking over.
	takeOverMax = 8 * time.Second
	askAgain    = 200 * time.Millisecond
	// UnreachableMax bounds how long a command that waits for its turn waits for a
	// server that cannot be reached, unreachableQuiet how long without a word.
	UnreachableMax   = 10 * time.Second
	unreachableQuiet = time.Second
	// keepMax is UnreachableMax for a command about a lease that its caller holds: well below
	// the default TTL, and long enough for a server to be started again.
	keepMax = 5 * time.Second
	// silentMax is how long a server may say nothing at all, first to a new
	// connection and then to a question whether it is there, before the next one
	// is asked. One whose connection came to nothing gets twice the time when its
	// turn comes again: the machine may be slow.
	silentMax = 2 * time.Second
	// answerMax bounds an answer: a page of names, each with the largest value,
	// fits.
	answerMax = bounds.PageMax*(bounds.ValueMax+4<<10) + 4<<20
)

// Client asks the servers of a cell, one after the other, until one serves.
type Client struct {
	Target
	conns map[string]*grpc.ClientConn
	// slow counts the connections to a server that came to nothing for want of
	// time.
	slow map[string]int
	// served is the server that gave the last answer.
	served string
	// Waits is told once that servers cannot be reached; nil: nobody is.
	Waits func(text string)
}

// New returns a client of the servers that --servers, which is flag, and the environment
// name. It dials when it is first used, and is to be closed.
func New(cmd *cobra.Command, flag []string) (*Client, error) {
	t, err := TargetOf(cmd, flag)
	if err != nil {
		return nil, err
	}
	return t.Client(), nil
}

// SayWaiting has a command say on its standard error that it waits for a server.
func (c *Client) SayWaiting(cmd *cobra.Command) {
	c.Waits = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), cmd.CommandPath()+": "+text) }
}

// Close closes its connections.
func (c *Client) Close() {
	for _, conn := range c.conns {
		_ = conn.Close() // nothing is under way
	}
	clear(c.conns)
}

// reread has the next request carry the credential that its file holds now, and
// reports whether that is another one.
func (c *Client) reread() bool {
	if !c.How.reread() {
		return false
	}
	c.Close() // a connection keeps the credential that it was made with
	return true
}

func (c *Client) at(server string) (*grpc.ClientConn, error) {
	if conn, ok := c.conns[server]; ok {
		return conn, nil
	}
	options, err := bearer.Options(server, c.How.TLS, c.How.Credential, func(ctx context.Context, at string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", at)
	}, false)
	if err != nil {
		return nil, exit.Failed(exit.CodeUsage, "%v; --ca says what TLS is verified with", err)
	}
	conn, err := grpc.NewClient("passthrough:///"+server, append(options,
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(answerMax), grpc.ForceCodecV2(protolimit.Codec())),
		// A connection is asked for as often as a command asks.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: askAgain, Multiplier: 1, MaxDelay: askAgain},
			MinConnectTimeout: min(silentMax<<min(c.slow[server], 4), CallMax),
		}),
	)...)
	if err != nil {
		return nil, exit.Failed(exit.CodeUsage, "%q is no address of a server: %v", server, err)
	}
	c.conns[server] = conn
	return conn, nil
}

// without are the servers of the list but for one.
func (c *Client) without(server string) []string {
	return slices.DeleteFunc(slices.Clone(c.servers), func(s string) bool { return s == server })
}

// AnsweredFirst is the target with the server that gave the last answer in front.
func (c *Client) AnsweredFirst() Target {
	t := c.Target
	if slices.Contains(t.servers, c.served) {
		t.servers = slices.Insert(c.without(c.served), 0, c.served)
	}
	return t
}

// Served is the server that gave the last answer; empty: none has.
func (c *Client) Served() string { return c.served }

// Call runs a function with a server that serves. It goes to the next server when one
// cannot be reached or stops answering, and follows redirects; so the function must be
// safe to repeat. When no server can be reached, it gives up at once, or tries again
// for wait, the time that the request may wait for its turn, up to UnreachableMax. again is
// true when an earlier try may have taken effect although its answer was lost.
func (c *Client) Call(ctx context.Context, wait time.Duration,
	do func(ctx context.Context, l linkpb.LinkClient, again bool) error,
) error {
	return c.try(ctx, wait, min(wait, UnreachableMax), perhaps, do)
}

// Keep is Call for a lease that the caller has, which outlives its server's
// restart: when no server can be reached at all it asks again, as long as keepMax.
func (c *Client) Keep(ctx context.Context, do func(ctx context.Context, l linkpb.LinkClient, again bool) error) error {
	return c.try(ctx, 0, keepMax, perhaps, do)
}

// perhaps ends the complaint about a request whose answer is missing.
const perhaps = "; whether the request took effect is unknown"

// Read is Call for what takes no effect.
func (c *Client) Read(ctx context.Context, wait time.Duration,
	do func(ctx context.Context, l linkpb.LinkClient, again bool) error,
) error {
	return c.try(ctx, wait, min(wait, UnreachableMax), "", do)
}

func (c *Client) try(ctx context.Context, wait, seek time.Duration, unknown string,
	do func(ctx context.Context, l linkpb.LinkClient, again bool) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, CallMax+wait)
	defer cancel()
	patience, stop := context.WithTimeout(ctx, takeOverMax+wait)
	defer stop()
	reaching, enough := context.WithTimeout(ctx, seek)
	defer enough()
	quiet, loud := context.WithTimeout(ctx, unreachableQuiet)
	defer loud()
	r := &round{Client: c}
	for told := false; ; {
		r.begin()
		for asked := 0; len(r.next) > 0 && asked < 2*len(c.servers)+2; asked++ {
			done, err := r.ask(ctx, do)
			if done {
				return err
			}
			if ctx.Err() != nil {
				return r.late(ctx, unknown)
			}
		}
		if !r.answered && !r.silent && reaching.Err() != nil {
			return unreached(r.nobody, r.effect(unknown))
		}
		if !r.answered && len(r.nobody) > 0 && quiet.Err() != nil && !told && c.Waits != nil {
			told = true
			c.Waits("waiting for a server: " + strings.Join(reasons(r.nobody), "; "))
		}
		select {
		case <-patience.Done():
			if ctx.Err() != nil || !r.answered {
				return r.late(ctx, unknown)
			}
			return r.noServer()
		case <-After(ctx, askAgain):
		}
	}
}

// After is a pause that needs no clock of its own.
func After(ctx context.Context, d time.Duration) <-chan struct{} {
	ctx, cancel := context.WithTimeout(ctx, d)
	context.AfterFunc(ctx, cancel)
	return ctx.Done()
}

// unreached says why no server could be reached at all, and what came of an
// earlier try.
func unreached(nobody []*dialerr.Error, effect string) error {
	missing, untrusted := false, false
	for _, e := range nobody {
		tls := e.Insecure || e.Closed
		missing, untrusted = missing || !e.Other && !tls, untrusted || tls
	}
	text := strings.Join(reasons(nobody), "; ") + effect
	if missing {
		text += "; is \"pawl serve\" running, and is --servers right?"
	}
	if untrusted {
		text += "; are --servers and --ca right?"
	}
	return exit.Failed(exit.CodeUnavailable, "%s", text)
}

func reasons(nobody []*dialerr.Error) []string {
	texts := make([]string, 0, len(nobody))
	for _, e := range nobody {
		if text := e.Error(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// With runs do with a client and a context that signals end.
func With(cmd *cobra.Command, servers []string, do func(context.Context, *Client) error) error {
	c, err := New(cmd, servers)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := signals.Until(cmd.Context())
	defer stop()
	return do(ctx, c)
}
