package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
)

// httpPlace is a service on the loopback that knows of no fence, and "pawl guard proxy"
// before it. The service is the demo's own; its ledgers are in memory.
type httpPlace struct {
	service *http.Server
	front   *process
	// direct is the service's URL, guarded the proxy's.
	direct, guarded string
}

const (
	// bodyMax bounds a ledger, and an entry, as JSON.
	bodyMax = 64 << 10
	// serviceMax bounds one request to the service.
	serviceMax = 10 * time.Second
)

func makeHTTP(ctx context.Context, folder string) (*httpPlace, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the ledger's service: %w", err)
	}
	p := &httpPlace{
		service: &http.Server{Handler: &books{all: map[string][]entry{}}, ReadTimeout: serviceMax},
		direct:  "http://" + l.Addr().String(),
	}
	go func() { _ = p.service.Serve(l) }() // until it is closed
	if p.front, p.guarded, err = startProxy(ctx, p.direct, filepath.Join(folder, "guard.db")); err != nil {
		_ = p.service.Close()
		return nil, err
	}
	return p, nil
}

// startProxy runs a guard before a service and returns its URL.
func startProxy(ctx context.Context, upstream, state string) (*process, string, error) {
	p, err := start(ctx, true, nil, "guard", "proxy", "--listen", "127.0.0.1:0",
		"--upstream", upstream, "--state", state, "--log-format", "json", "--until-eof")
	if err != nil {
		return nil, "", err
	}
	var said []byte
	for line := range p.lines {
		var l struct{ Msg, Address string }
		if json.Unmarshal(line, &l) == nil && l.Msg == "guarding" {
			go func() {
				for range p.lines { //nolint:revive // kept from filling up
				}
			}()
			return p, "http://" + l.Address, nil
		}
		said = line
	}
	p.stop()
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	return nil, "", fmt.Errorf("the guard did not start: %s", said)
}

func (p *httpPlace) setting() Setting {
	return Setting{Ledger: "an HTTP service", Guard: "pawl guard proxy", Where: p.direct}
}

func (p *httpPlace) ledger(_ context.Context, a Act) (ledger, []string, []string, error) {
	book, err := openHTTP(p.direct+"/"+a.String(), p.guarded)
	return book, []string{"--ledger", p.direct + "/" + a.String(), "--proxy", p.guarded}, nil, err
}

func (p *httpPlace) remove() error {
	p.front.stop()
	return p.service.Close()
}

// books are the service's ledgers, by their paths.
type books struct {
	mu  sync.Mutex
	all map[string][]entry
}

// ServeHTTP makes a ledger (PUT), adds an entry (POST) or lists them (GET).
func (b *books) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		b.all[r.URL.Path] = nil
	case http.MethodPost:
		var e entry
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyMax)).Decode(&e); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b.all[r.URL.Path] = append(b.all[r.URL.Path], e)
	case http.MethodGet:
		_ = json.NewEncoder(w).Encode(b.all[r.URL.Path]) // the caller is gone
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// httpLedger is an account behind HTTP.
type httpLedger struct {
	direct, guarded string
	httpguard.Client
}

func openHTTP(direct, guarded string) (*httpLedger, error) {
	c, err := httpguard.NewClient(guarded, nil)
	return &httpLedger{direct, guarded, c}, err
}

func (l *httpLedger) close() { http.DefaultClient.CloseIdleConnections() }

func (l *httpLedger) create(ctx context.Context) error {
	if _, err := l.ask(ctx, nil, http.MethodPut, l.direct, nil); err != nil {
		return fmt.Errorf("create the ledger: %w", err)
	}
	return l.add(ctx, entry{Who: "opening", Balance: openingBalance})
}

// install has nothing to do: the proxy makes what it needs.
func (l *httpLedger) install(context.Context) error { return nil }

func (l *httpLedger) add(ctx context.Context, e entry) error {
	return l.post(ctx, nil, l.direct, e)
}

// brief is a lease for as long as one request.
type brief struct {
	f   guard.Fence
	ctx context.Context
}

func (b brief) Fence(...string) guard.Fence { return b.f }
func (b brief) Context() context.Context    { return b.ctx }

func (l *httpLedger) addUnder(ctx context.Context, f guard.Fence, e entry) error {
	_, path, _ := strings.Cut(strings.TrimPrefix(l.direct, "http://"), "/")
	return l.post(ctx, httpguard.Transport(nil, brief{f, ctx}), l.guarded+"/"+path, e)
}

func (l *httpLedger) post(ctx context.Context, by http.RoundTripper, url string, e entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := l.ask(ctx, by, http.MethodPost, url, text); err != nil {
		return fmt.Errorf("add to the ledger: %w", err)
	}
	return nil
}

// ask returns the body of an answer with 200.
func (l *httpLedger) ask(ctx context.Context, by http.RoundTripper, method, url string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := (&http.Client{Transport: by}).Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, bodyMax))
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return text, err
}

func (l *httpLedger) balance(ctx context.Context) (int64, error) {
	all, err := l.entries(ctx)
	if err != nil || len(all) == 0 {
		return 0, errors.Join(err, errors.New("the ledger has no entry"))
	}
	return all[len(all)-1].Balance, nil
}

func (l *httpLedger) entries(ctx context.Context) ([]entry, error) {
	text, err := l.ask(ctx, nil, http.MethodGet, l.direct, nil)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	var all []entry
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return all, nil
}
