package httpguard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawlproject/pawl/guard"
)

// Client claims the resources behind a guard over HTTP, and reads their marks: a
// [guard.Claimer] and a [guard.Seer]. It may be copied and used by many goroutines.
type Client struct {
	base *url.URL
	next http.RoundTripper
	wait time.Duration // how long a claim waits at the guard; below 0: as long as it does
}

var (
	_ guard.Claimer = Client{}
	_ guard.Seer    = Client{}
)

// NewClient returns a client of the guard at base, an http or https URL, through next; nil:
// [http.DefaultTransport]. A path in base stands before those of the guard. It asks nothing
// yet.
func NewClient(base string, next http.RoundTripper) (Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// What url.Parse says may hold a password.
		return Client{}, fmt.Errorf("httpguard: expected http://HOST:PORT or https://HOST:PORT")
	}
	if next == nil {
		next = http.DefaultTransport
	}
	return Client{u, next, -1}, nil
}

// Wait returns a client whose claims wait for requests under lower tokens no longer than d,
// in whole seconds, rounded up; 0: not at all. Without it, and at most, they wait as long as
// the guard lets them.
func (c Client) Wait(d time.Duration) Client {
	c.wait = max(d, 0)
	return c
}

// under is a lease for as long as a context.
type under struct {
	f   guard.Fence
	ctx context.Context
}

func (u under) Fence(...string) guard.Fence { return u.f }
func (u under) Context() context.Context    { return u.ctx }

// Claim raises the mark of f.Resource, see [guard.Claimer]: nil says that no request with a
// lower token is in flight behind the guard any more. [ErrBusy] says that some may be: the
// mark has been raised in most cases, and the claim is to be repeated.
func (c Client) Claim(ctx context.Context, f guard.Fence) error {
	res, err := c.ask(ctx, f, http.MethodPost, ClaimPath, "")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent || res.Header.Get(SeenHeader) != f.Token.String() {
		return fmt.Errorf("%w: %s answered %s, as no guard does", guard.ErrUnknown, c.base.Redacted(), res.Status)
	}
	return nil
}

// Seen returns the mark of a resource, see [guard.Seer].
func (c Client) Seen(ctx context.Context, resource string) (guard.State, error) {
	f := guard.Fence{Resource: resource, Token: guard.Max, Cell: NoCell}
	if err := f.Validate(); err != nil {
		return guard.State{}, err
	}
	if err := until(ctx)(); err != nil {
		return guard.State{}, err
	}
	res, err := c.ask(ctx, f, http.MethodGet, SeenPath, "r="+url.QueryEscape(resource))
	if err != nil {
		return guard.State{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, problemMax))
	if err != nil {
		return guard.State{}, fmt.Errorf("httpguard: read the mark: %w", err)
	}
	var s seenBody
	if res.StatusCode != http.StatusOK || res.Header.Get(SeenHeader) == "" || json.Unmarshal(text, &s) != nil || s.Resource != resource {
		return guard.State{}, fmt.Errorf("httpguard: %s answered %s, as no guard does", c.base.Redacted(), res.Status)
	}
	return guard.State{Cell: s.Cell, Seen: s.Seen}, nil
}

// ask sends a request under f. That of SeenPath shows it as well, which nobody looks at.
func (c Client) ask(ctx context.Context, f guard.Fence, method, path, query string) (*http.Response, error) {
	u := *c.base
	u.Path, u.RawPath, u.RawQuery = strings.TrimSuffix(u.Path, "/")+path, "", query
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("httpguard: %w", err)
	}
	if c.wait >= 0 && method == http.MethodPost {
		req.Header.Set("Prefer", "wait="+strconv.Itoa(int(math.Ceil(c.wait.Seconds()))))
	}
	return (&transport{next: c.next, lease: under{f, ctx}, own: true}).RoundTrip(req)
}
