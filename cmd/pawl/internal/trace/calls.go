package trace

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bearer"
	"github.com/pawlproject/pawl/internal/clock"
)

// laps times requests that are answered in one piece.
type laps struct {
	clock                  clock.Clock
	asked, sent, came, had clock.Reading
}

// lap is how long the last one was where; server are the rooms of the server.
func (l *laps) lap(token guard.Token, server []time.Duration) lap {
	return lapOf(token, []clock.Reading{l.asked, l.sent}, server, l.came, l.had)
}

// byCalls follows the unary call.
func (t *Trace) byCalls(cell client.Target) way {
	c := cell.Client()
	l := laps{clock: clock.System()}
	once := func(ctx context.Context) (lap, error) {
		l.asked = l.clock.Now()
		q := &linkpb.AcquireRequest{
			Name: t.Name, TtlNano: int64(t.TTL), WaitNano: int64(t.Wait), Label: client.HostLabel(), RequestId: rand.Text(), Trace: true,
		}
		var a *linkpb.AcquireResponse
		err := c.Call(ctx, t.Wait, func(ctx context.Context, s linkpb.LinkClient, _ bool) (err error) {
			l.sent = l.clock.Now()
			a, err = s.Acquire(ctx, q)
			l.came = l.clock.Now()
			return err
		})
		if err != nil {
			return lap{}, client.HeldError(q, err)
		}
		l.had = l.clock.Now()
		// Also when a signal came meanwhile: else it would be held for its whole TTL.
		if err := c.Release(context.WithoutCancel(ctx), a.GetLease(), false); err != nil {
			return lap{}, err
		}
		if a.GetTrace() == nil {
			return lap{}, errNotTraced()
		}
		return l.lap(guard.Token(a.GetToken()), serverStretches(a.GetTrace())), nil
	}
	return way{once: once, end: c.Close}
}

// overHTTP follows the request over HTTP.
func (t *Trace) overHTTP(cell client.Target, told *linkpb.StatusResponse) (way, error) {
	c, err := newWebClient(cell.How, told.GetActiveHttp())
	if err != nil {
		return way{}, err
	}
	var ttl *rest.Duration
	if t.TTL != 0 {
		ttl = (*rest.Duration)(&t.TTL)
	}
	l := laps{clock: clock.System()}
	once := func(ctx context.Context) (lap, error) {
		var lease rest.LeaseBody
		l.asked = l.clock.Now()
		err := c.ask(ctx, t.Wait, http.MethodPost, "/v1/leases", acquireOverHTTP{
			Name: t.Name, TTL: ttl, Wait: rest.Duration(t.Wait), Label: client.HostLabel(), RequestID: rand.Text(), Trace: true,
		}, &lease, &l)
		if err != nil {
			return lap{}, err
		}
		l.had = l.clock.Now()
		// Also when a signal came meanwhile: else it would be held for its whole TTL.
		err = c.ask(context.WithoutCancel(ctx), 0, http.MethodDelete, "/v1/leases/"+lease.Lease, nil, &struct{}{}, &laps{clock: l.clock})
		if err != nil {
			return lap{}, err
		}
		server := make([]time.Duration, 0, len(lease.Trace))
		for _, r := range lease.Trace {
			server = append(server, time.Duration(r.Took))
		}
		if len(server) != len(serverRooms) {
			return lap{}, errNotTraced()
		}
		return l.lap(guard.Token(lease.Token), server), nil
	}
	return way{once: once, end: c.CloseIdleConnections}, nil
}

// acquireOverHTTP is what is asked.
type acquireOverHTTP struct {
	Name      string         `json:"name"`
	TTL       *rest.Duration `json:"ttl,omitempty"`
	Wait      rest.Duration  `json:"wait"`
	Label     string         `json:"label"`
	RequestID string         `json:"request_id"`
	Trace     bool           `json:"trace"`
}

// heardMax bounds the bytes of an answer over HTTP that is read.
const heardMax = 1 << 20

// webClient asks one server over HTTP.
type webClient struct {
	http.Client
	base, server, credential string
}

// newWebClient reaches a server as the link is reached: by the same TLS, and with
// the same credential.
func newWebClient(how client.Connection, server string) (*webClient, error) {
	if server == "" {
		return nil, exit.Failed(exit.CodeUnavailable, "no HTTP interface of an active server is known")
	}
	c := &webClient{base: "http://" + server, server: server, credential: how.Credential}
	dial := bearer.Dialer(func(ctx context.Context, at string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", at)
	})
	if how.Credential != "" {
		var err error
		if dial, err = bearer.Guarded(server, how.TLS != nil, dial); err != nil {
			return nil, exit.Failed(exit.CodeUsage, "%v; --ca says what TLS is verified with", err)
		}
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, at string) (net.Conn, error) { return dial(ctx, at) }}
	if how.TLS != nil {
		c.base, transport.TLSClientConfig = "https://"+server, how.TLS.Clone()
	}
	c.Transport = transport
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// ask sends one request and reads its answer, with its times.
func (c *webClient) ask(ctx context.Context, wait time.Duration, method, path string, in, out any, l *laps) error {
	ctx, cancel := context.WithTimeout(ctx, client.CallMax+wait)
	defer cancel()
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, &body)
	if err != nil {
		return exit.Failed(exit.CodeUsage, "%q is no address of a server: %v", c.server, err)
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.credential != "" {
		r.Header.Set("Authorization", "Bearer "+c.credential)
	}
	l.sent = l.clock.Now()
	a, err := c.Do(r)
	if err != nil {
		return c.unreached(ctx, err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, heardMax))
	if err != nil {
		return c.unreached(ctx, err)
	}
	l.came = l.clock.Now()
	if a.StatusCode != http.StatusOK {
		return refusedOverHTTP(c.server, a.Status, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the answer of %s: %w", c.server, err)
	}
	return nil
}

func (c *webClient) unreached(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() == context.Canceled {
		return cause
	}
	return exit.Failed(exit.CodeUnavailable, "%s over HTTP: %v", c.server, err)
}

// refusedOverHTTP makes of a problem what the same refusal by a call would be.
func refusedOverHTTP(server, status string, text []byte) error {
	var p rest.Problem
	if err := json.Unmarshal(text, &p); err != nil || p.Reason == "" {
		return exit.Failed(exit.CodeUnavailable, "%s answered over HTTP with %s", server, output.Text(status))
	}
	code := exit.CodeOf(linkpb.Reason(linkpb.Reason_value["REASON_"+strings.ToUpper(p.Reason)]))
	if p.Holder != nil {
		return exit.Failed(code, "%s; it is %s", output.Text(p.Detail), output.Holder(*p.Holder))
	}
	return exit.Failed(code, "%s", output.Text(p.Detail))
}
