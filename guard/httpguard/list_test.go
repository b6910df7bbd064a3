package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/httpguard"
)

// lists are a service that appends to lists and knows of no fence.
type lists struct {
	mu    sync.Mutex
	texts map[string][]string
	// held requests wait for a word before they append.
	held map[string]*hold
}

// hold is where one request waits.
type hold struct {
	came chan struct{}
	word chan bool
}

func newLists() *lists {
	return &lists{texts: map[string][]string{}, held: map[string]*hold{}}
}

// ServeHTTP appends the body to the list, after the word for its parameter hold.
func (l *lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if id := q.Get("hold"); id != "" {
		l.mu.Lock()
		h := l.held[id]
		l.mu.Unlock()
		close(h.came)
		if !<-h.word {
			http.Error(w, "rolled back", http.StatusConflict)
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts[q.Get("list")] = append(l.texts[q.Get("list")], string(text))
}

func (l *lists) read(_ context.Context, name string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.texts[name]), nil
}

// hold makes requests with hold=id wait for a word.
func (l *lists) hold(id string) *hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &hold{make(chan struct{}), make(chan bool, 1)}
	l.held[id] = h
	return h
}

// lossy is a transport whose connections lose an answer when they are told to.
type lossy struct {
	*http.Transport
	mu   sync.Mutex
	lose *bool // whether the request lands; nil: no answer is lost
}

var errCut = errors.New("test: the connection is cut")

func newLossy(t *testing.T) *lossy {
	l := &lossy{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	l.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &lossyConn{Conn: conn, of: l}, err
	}
	t.Cleanup(l.CloseIdleConnections)
	return l
}

func (l *lossy) loseAnswer(landed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = &landed
}

type lossyConn struct {
	net.Conn
	of      *lossy
	mu      sync.Mutex
	armed   bool
	swallow bool
}

func (c *lossyConn) Write(p []byte) (int, error) {
	c.of.mu.Lock()
	lose := c.of.lose
	c.of.lose = nil
	c.of.mu.Unlock()
	c.mu.Lock()
	if lose != nil {
		c.armed, c.swallow = true, !*lose
	}
	swallow := c.swallow
	c.mu.Unlock()
	if swallow {
		// The reader is at the real connection: end it.
		c.Conn.Close()
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *lossyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed {
		return 0, errCut
	}
	return n, err
}

// lease is one for as long as a context.
type lease struct {
	f   guard.Fence
	ctx context.Context
}

func (l lease) Fence(...string) guard.Fence { return l.f }
func (l lease) Context() context.Context    { return l.ctx }

// world is a list service behind a guard, and a caller.
type world struct {
	lists  *lists
	gate   *httpguard.Gate
	front  string
	next   *lossy
	client httpguard.Client
}

// form is how the guard stands before the service.
type form func(t *testing.T, g *httpguard.Gate, service http.Handler) http.Handler

func asMiddleware(_ *testing.T, g *httpguard.Gate, service http.Handler) http.Handler {
	return g.Middleware(service)
}

func asProxy(t *testing.T, g *httpguard.Gate, service http.Handler) http.Handler {
	back := httptest.NewServer(service)
	t.Cleanup(back.Close)
	return g.Proxy(parsed(t, back.URL), nil, quiet)
}

func parsed(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func newWorld(t *testing.T, how form, marks httpguard.Marks, o httpguard.Options) *world {
	t.Helper()
	w := &world{lists: newLists(), gate: httpguard.NewGate(marks, o), next: newLossy(t)}
	front := httptest.NewServer(how(t, w.gate, w.lists))
	t.Cleanup(front.Close)
	w.front = front.URL
	var err error
	if w.client, err = httpguard.NewClient(front.URL, w.next); err != nil {
		t.Fatal(err)
	}
	return w
}

// send posts under a fence, and returns the error that the answer stands for.
func (w *world) send(ctx context.Context, f guard.Fence, query url.Values, text string) error {
	query.Set("list", f.Resource)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.front+"/append?"+query.Encode(), strings.NewReader(text))
	if err != nil {
		return err
	}
	res, err := (&http.Client{Transport: httpguard.Transport(w.next, lease{f, ctx})}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s (%w)", res.Status, err)
	}
	return nil
}

func (w *world) append(ctx context.Context, f guard.Fence, text string) error {
	return w.send(ctx, f, url.Values{}, text)
}

// open is a request that waits at the service.
type open struct {
	at     *hold
	answer chan error
	once   sync.Once
	err    error
}

func (o *open) Commit() error   { return o.say(true) }
func (o *open) Rollback() error { return o.say(false) }

func (o *open) say(commit bool) error {
	o.once.Do(func() {
		o.at.word <- commit
		o.err = <-o.answer
	})
	return o.err
}

var opened struct {
	sync.Mutex
	n int
}

func (w *world) begin(ctx context.Context, f guard.Fence, text string) (guardtest.Open, error) {
	opened.Lock()
	opened.n++
	id := fmt.Sprint(opened.n)
	opened.Unlock()
	o := &open{at: w.lists.hold(id), answer: make(chan error, 1)}
	go func() { o.answer <- w.send(ctx, f, url.Values{"hold": {id}}, text) }()
	select {
	case <-o.at.came:
		return o, nil
	case err := <-o.answer:
		if err == nil {
			err = errors.New("test: a held request was answered")
		}
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *world) resource() guardtest.Resource {
	return guardtest.Resource{
		Claim: w.client.Claim, Append: w.append, Read: w.lists.read, Seen: w.client.Seen, Begin: w.begin,
		LoseAnswer: w.next.loseAnswer, SideBySide: true, RaisesFirst: true,
		Busy: func(err error) bool { return errors.Is(err, httpguard.ErrBusy) },
	}
}

// C85: the contract of every guard, over real connections.
func TestContract(t *testing.T) {
	for name, how := range map[string]form{"middleware": asMiddleware, "proxy": asProxy} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T) guardtest.Resource {
				return newWorld(t, how, &httpguard.Memory{}, httpguard.Options{Wait: time.Minute}).resource()
			})
		})
	}
}
