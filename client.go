package pawl

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/internal/bearer"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/dialerr"
	"github.com/pawlproject/pawl/internal/hook"
	"github.com/pawlproject/pawl/internal/session"
)

const (
	// dialMax bounds Dial when its context has no deadline.
	dialMax = 15 * time.Second
	// closeMax bounds Close.
	closeMax = time.Second
)

// Options of a Client. The zero Options are fine for a server on this machine.
type Options struct {
	// TTL is how long the server keeps this client's leases without a renewal, from 1 s
	// to 24 h; 0 means 15 s. It is also about how long others wait when this client
	// dies. [Client.SetTTL] changes it.
	TTL time.Duration
	// Label is what this client calls itself, for people; at most 256 bytes.
	Label string
	// TLS secures the connection; nil: none. LoadTLS makes one of files.
	TLS *tls.Config
	// Credential proves who this client is, to servers that want to know. It is
	// sent over TLS or to a server on this machine alone; otherwise Dial fails with
	// ErrInvalid. CredentialFile is a file with nothing else in it, which is read
	// for every connection, so that the credential can be replaced.
	Credential     Credential
	CredentialFile string
	// Logger is told what Events tells; nil: nobody is.
	Logger *slog.Logger
}

// Client holds one session with a cell and all its leases. Its methods may be
// called by several goroutines.
type Client struct {
	options Options
	// secret gives the credential; nil: there is none. It is not in options any
	// more, where printing a Client would show it.
	secret     secretSource
	clock      clock.Clock
	dialServer func(context.Context, string) (net.Conn, error)
	tracer     *tracer // nil: nothing is traced

	// machine decides; it, the standing of the present session and the stream are the
	// loop's. opened is told the id of every session; nil: nobody is.
	machine      *session.Machine
	standing     *standing
	opened       func([]byte)
	stream       *stream
	ops          opQueue
	streamEvents chan streamEvent
	streams      sync.WaitGroup
	// readers read the marks of guards while leases ride.
	readers sync.WaitGroup

	// closeBy is when Close is to return, in the machine's time; it is the loop's.
	closeBy time.Duration

	events chan Event
	log    chan Event
	// blockedBy is what is wrong with the connection, as callers see it; why is the same,
	// the loop's.
	blockedBy atomic.Pointer[error]
	why       *session.Cause
	ended     chan struct{}
	logged    sync.WaitGroup
}

// Dial connects to a cell by any of its servers, "host:port" each, and opens a
// session. It returns when that is done, when ctx ends, or after 15 seconds if
// ctx has no deadline. Errors: ErrUnavailable, ErrDenied, ErrExhausted,
// ErrInvalid, ErrStoreRolledBack, ctx's error.
func Dial(ctx context.Context, servers []string, o Options) (*Client, error) {
	if o.TTL == 0 {
		o.TTL = bounds.TTLDefault
	}
	secret, err := o.check(servers, hook.From(ctx).Dial == nil)
	if err != nil {
		return nil, fmt.Errorf("pawl: dial: %w", err)
	}
	o.Credential = ""
	c := newClient(ctx, servers, o, secret)
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialMax)
		defer cancel()
	}
	opened := newCall(callOpen)
	c.submit(op{call: opened})
	_, err, given := opened.wait(ctx)
	if given {
		err = fmt.Errorf("%w (%w)", unavailable(c.setTrouble()), interrupted(ctx, nil))
	}
	if err != nil {
		c.shut(closeMax / 20)
		return nil, fmt.Errorf("pawl: dial: %w", err)
	}
	return c, nil
}

// check says what is wrong with what Dial was given, and where the credential
// comes from. Without a network addresses are whatever the dialer makes of them.
func (o *Options) check(servers []string, network bool) (secretSource, error) {
	switch {
	case len(servers) == 0:
		return nil, fmt.Errorf("%w: no server was named", ErrInvalid)
	case bounds.ValidTTL(o.TTL) != nil:
		return nil, fmt.Errorf("%w: the TTL is %v; 1s to 24h was expected", ErrInvalid, o.TTL)
	}
	if err := invalid(bounds.ValidLabel(o.Label)); err != nil {
		return nil, err
	}
	for _, s := range servers {
		if err := dialerr.CheckAddress(s); err != nil && (s == "" || network) {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	secret, err := o.secret()
	if secret == nil || !network {
		return secret, err
	}
	for _, s := range servers {
		if err := bearer.Exposed(s, o.TLS != nil); err != nil {
			return nil, fmt.Errorf("%w: %w; set Options.TLS", ErrInvalid, err)
		}
	}
	return secret, nil
}

func newClient(ctx context.Context, servers []string, o Options, secret secretSource) *Client {
	parts := hook.From(ctx)
	c := &Client{
		options: o, secret: secret, clock: parts.Clock, dialServer: parts.Dial,
		ops:          opQueue{ready: make(chan struct{}, 1)},
		streamEvents: make(chan streamEvent, 64),
		events:       make(chan Event, eventsKept),
		ended:        make(chan struct{}),
	}
	if c.clock == nil {
		c.clock = clock.System()
	}
	c.machine = session.New(session.Settings{
		Servers: append([]string(nil), servers...), TTL: o.TTL, Label: o.Label, Jitter: rand.Float64,
	}, c.clock.Now())
	c.standing, c.opened = &standing{}, parts.Opened
	if parts.Traced != nil {
		c.tracer = newTracer(c.clock, parts.Traced)
	}
	if o.Logger != nil {
		c.log = make(chan Event, eventsKept)
		c.logged.Go(func() { logEvents(o.Logger, c.log) })
	}
	go c.run()
	return c
}

// Acquire waits in the queue of a name until it is granted or ctx ends. It goes on over
// lost connections and restarts of the server. If the session is lost meanwhile, it
// goes on in a new one, at the end of the queue.
//
// An error means that no lease is held, and none will be: a lease that the server
// grants nevertheless is given back. The error is one of these: ctx's error, joined
// with ErrUnavailable when no server could be reached, or with ErrExhausted when a
// limit or a full store kept it out of the queue; ErrDenied, ErrConflict, ErrInvalid,
// ErrExhausted, ErrStoreRolledBack or ErrClosed; and with Claim the guard's error, or
// ErrLost or ErrBroken when the lease ended before the guards were claimed.
func (c *Client) Acquire(ctx context.Context, name string, options ...AcquireOption) (*Lease, error) {
	return c.acquire(ctx, "acquire", name, false, options)
}

// TryAcquire is Acquire without waiting in the queue: when the name is not free it
// returns a *HeldError, which matches ErrHeld. It waits for a reachable server until
// ctx ends, for one TTL at most (ErrUnavailable).
func (c *Client) TryAcquire(ctx context.Context, name string, options ...AcquireOption) (*Lease, error) {
	return c.acquire(ctx, "acquire", name, true, options)
}

// Events tells of changes of the session, in order. The channel is closed by
// Close. It keeps 64 events; when nobody reads, the oldest are dropped.
func (c *Client) Events() <-chan Event { return c.events }

// Close ends the session, which releases all its leases, and returns when all
// goroutines of the client have ended, after one second at the latest. One that looks at
// the mark of a guard that does not heed its context is left behind. Close returns
// ErrUnavailable if no server answered; the server then ends the session by its TTL.
// The contexts of leases end first, but Close does not wait for the work under them;
// [Client.Do] does. Closing twice is allowed.
func (c *Client) Close() error {
	c.shut(closeMax)
	if _, confirmed := c.machine.Finished(); !confirmed {
		return fmt.Errorf("pawl: close: %w", unavailable(errorOf(c.machine.Trouble())))
	}
	return nil
}

func (c *Client) shut(within time.Duration) {
	c.submit(op{close: within})
	<-c.ended
	c.logged.Wait()
}

func (c *Client) submit(o op) bool { return c.ops.put(o) }

// setTrouble says what is wrong with the connection; nil when nothing is.
func (c *Client) setTrouble() error {
	if p := c.blockedBy.Load(); p != nil {
		return *p
	}
	return nil
}
