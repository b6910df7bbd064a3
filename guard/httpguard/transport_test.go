package httpguard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
)

func fence(t guard.Token) guard.Fence {
	return guard.Fence{Resource: "x", Token: t, Cell: "test-00000000000000aa"}
}

// closing is a server that answers the first request of each connection, and closes the
// connection at the second one, which it has received. It counts those.
func closing(t *testing.T) (address string, arrived *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	arrived = &atomic.Int64{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for n := range 2 {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if req.URL.Path == "/first" && n == 0 {
						fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
						continue
					}
					arrived.Add(1)
					return
				}
			}()
		}
	}()
	return l.Addr().String(), arrived
}

// A connection that was used before breaks after the request has arrived. Net/http sends
// some requests again then. Under a lease exactly one arrives.
func TestNothingIsSentTwice(t *testing.T) {
	for _, c := range []struct {
		method, key, body string
		plain             int64 // how often net/http alone sends it
	}{
		{"GET", "", "", 2},
		{"HEAD", "", "", 2},
		{"OPTIONS", "", "", 2},
		{"GET", "", "body", 2},
		{"POST", "", "", 1},
		{"POST", "", "body", 1},
		{"POST", "Idempotency-Key", "", 2},
		{"POST", "Idempotency-Key", "body", 2},
		{"PUT", "X-Idempotency-Key", "body", 2},
		{"DELETE", "Idempotency-Key", "", 2},
		{"DELETE", "Idempotency-Key", "body", 2},
	} {
		for _, guarded := range []bool{false, true} {
			address, arrived := closing(t)
			next := &http.Transport{}
			client := &http.Client{Transport: next}
			if guarded {
				client.Transport = httpguard.Transport(next, lease{fence(7), t.Context()})
			}
			send := func(path string) error {
				var body io.Reader
				if c.body != "" {
					body = strings.NewReader(c.body)
				}
				req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+address+path, body)
				if err != nil {
					t.Fatal(err)
				}
				if c.key != "" {
					req.Header.Set(c.key, "k")
				}
				res, err := client.Do(req)
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				return err
			}
			if err := send("/first"); err != nil {
				t.Fatal(err)
			}
			err := send("/second")
			want := c.plain
			if guarded {
				want = 1
			}
			if arrived.Load() != want || err == nil || errors.Is(err, guard.ErrUnknown) != guarded {
				t.Errorf("%s %s body %q, guarded %t: %d arrived, expected %d; %v", c.method, c.key, c.body, guarded, arrived.Load(), want, err)
			}
			next.CloseIdleConnections()
		}
	}
}

// What arrives is what was sent: no body where there was none, and the key's header.
func TestRequestArrivesAsItWas(t *testing.T) {
	type seen struct {
		body, key, token string
		length           int64
		coding           []string
	}
	var got seen
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got = seen{string(text), r.Header.Get("Idempotency-Key"), r.Header.Get(httpguard.TokenHeader), r.ContentLength, r.TransferEncoding}
	}))
	defer s.Close()
	client := &http.Client{Transport: httpguard.Transport(nil, lease{fence(7), t.Context()})}
	for _, method := range []string{"GET", "DELETE", "POST", "PUT"} {
		for _, body := range []string{"", "text"} {
			req, err := http.NewRequestWithContext(t.Context(), method, s.URL, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", "k")
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if got.body != body || got.length != int64(len(body)) || len(got.coding) > 0 || got.key != "k" || got.token != `"7";r="x";cell="test-00000000000000aa"` {
				t.Errorf("%s %q arrived as %+v", method, body, got)
			}
			if req.Header.Get(httpguard.TokenHeader) != "" || req.Header.Get("Idempotency-Key") != "k" {
				t.Errorf("the caller's request was changed: %v", req.Header)
			}
		}
	}
}

// When the lease is lost nothing is sent any more, and what is under way is cut off.
func TestTransportStopsWithItsLease(t *testing.T) {
	came, gone := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(came)
		<-r.Context().Done()
		close(gone)
	}))
	defer s.Close()
	lost := errors.New("the lease is lost")
	held, lose := context.WithCancelCause(t.Context())
	client := &http.Client{Transport: httpguard.Transport(nil, lease{fence(7), held})}
	go func() {
		<-came
		lose(lost)
	}()
	_, err := client.Get(s.URL)
	if !errors.Is(err, guard.ErrUnknown) || !errors.Is(err, lost) || !errors.Is(err, context.Canceled) {
		t.Errorf("under way: %v", err)
	}
	<-gone
	if _, err := client.Get(s.URL); !errors.Is(err, lost) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("afterwards: %v", err)
	}
}

// A redirect repeats the request. It is followed on the same host, under the fence, and to
// no other.
func TestRedirects(t *testing.T) {
	var there, here atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { there.Add(1) }))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/on":
			http.Redirect(w, r, "/here", http.StatusPermanentRedirect)
		default:
			if r.Header.Get(httpguard.TokenHeader) != "" {
				here.Add(1)
			}
		}
	}))
	defer s.Close()
	client := &http.Client{Transport: httpguard.Transport(nil, lease{fence(7), t.Context()})}
	if _, err := client.Post(s.URL+"/away", "text/plain", strings.NewReader("x")); !errors.Is(err, httpguard.ErrRedirected) || there.Load() != 0 {
		t.Errorf("to another host: %v, %d came", err, there.Load())
	}
	res, err := client.Post(s.URL+"/on", "text/plain", strings.NewReader("x"))
	if err != nil || here.Load() != 1 {
		t.Fatalf("on the same host: %v, %d came", err, here.Load())
	}
	res.Body.Close()
}

// Answers that are not the guard's are handed on whole, also where they look like one.
func TestOtherAnswersAreHandedOn(t *testing.T) {
	for _, media := range []string{"application/problem+json", "text/plain"} {
		for _, body := range []string{`{"type":"about:blank","status":412}`, `{`, ``, strings.Repeat("x", 200<<10)} {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", media)
				w.WriteHeader(http.StatusPreconditionFailed)
				_, _ = io.WriteString(w, body)
			}))
			res, err := (&http.Client{Transport: httpguard.Transport(nil, lease{fence(7), t.Context()})}).Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(res.Body); err != nil || string(text) != body || res.StatusCode != http.StatusPreconditionFailed {
				t.Errorf("%d bytes of %d came (%v)", len(text), len(body), err)
			}
			res.Body.Close()
			s.Close()
		}
	}
}

func TestNoConnectionIsBusy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = (&http.Client{Transport: httpguard.Transport(nil, lease{fence(7), t.Context()})}).Get("http://" + l.Addr().String())
	if !errors.Is(err, httpguard.ErrBusy) || !errors.Is(err, httpguard.ErrUnreachable) || errors.Is(err, guard.ErrUnknown) {
		t.Error(err)
	}
}

// A service that is no guard must not be taken for one that was claimed.
func TestClaimOfWhatIsNoGuard(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer s.Close()
	c, err := httpguard.NewClient(s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Claim(t.Context(), fence(7)); err == nil {
		t.Error("it was claimed")
	}
	if s, err := c.Seen(t.Context(), "x"); err == nil {
		t.Errorf("it has seen %+v", s)
	}
	for _, base := range []string{"", "x", "ftp://x", "http://", "http://x?y", "http://u:secret@x\x7f"} {
		if _, err := httpguard.NewClient(base, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", base, err)
		}
	}
}
