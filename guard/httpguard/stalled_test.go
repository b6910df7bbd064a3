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
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
)

// stallBound is for a machine that is busy: a test that succeeds does not wait for it.
const stallBound = time.Minute

// eventually waits for what other goroutines do.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); runtime.Gosched() {
		if time.Since(begun) > stallBound {
			t.Errorf("%s: not within %v", what, stallBound)
			return
		}
	}
}

// endless answers without an end, so that it waits for a caller that does not read.
func endless(came chan<- struct{}) http.Handler {
	part := []byte(strings.Repeat("x", 64<<10))
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(came)
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
}

// A caller that stops reading its answer, as a holder does that is paused, does not keep its
// resource closed: its connection may stay for ever.
func TestStalledReaderIsCutOff(t *testing.T) {
	for name, how := range map[string]form{"middleware": asMiddleware, "proxy": asProxy} {
		t.Run(name, func(t *testing.T) {
			came := make(chan struct{})
			gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{Wait: stallBound, Linger: 200 * time.Millisecond})
			front := httptest.NewServer(how(t, gate, endless(came)))
			t.Cleanup(front.CloseClientConnections)
			conn, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nFencing-Token: 7;r=\"x\";cell=\"test-00000000000000aa\"\r\nContent-Length: 1\r\n\r\nx")
			<-came
			if err := gate.Claim(t.Context(), fence(8)); err != nil {
				t.Fatalf("the claim: %v", err)
			}
			eventually(t, "nothing is in flight", func() bool { return gate.Stats().InFlight == 0 })
			// The handler has ended, too.
			closed := make(chan struct{})
			go func() { front.Close(); close(closed) }()
			select {
			case <-closed:
			case <-time.After(stallBound):
				t.Error("the request is still served")
			}
		})
	}
}

// A middleware's answer that its caller takes in time comes whole, also when it is overtaken,
// and the connection serves the next request.
func TestOvertakenAnswerComesWhole(t *testing.T) {
	const linger = 100 * time.Millisecond
	came, word := make(chan struct{}, 1), make(chan struct{})
	gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{Wait: stallBound, Linger: linger})
	front := httptest.NewServer(gate.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if f, _ := httpguard.FenceFrom(r.Context()); f.Token == 7 {
			came <- struct{}{}
			<-r.Context().Done()
		} else {
			<-word // longer than the deadline that the request before had
		}
		_, _ = io.WriteString(w, "done")
	})))
	defer front.Close()
	next := &http.Transport{MaxConnsPerHost: 1}
	defer next.CloseIdleConnections()
	post := func(token guard.Token) error {
		res, err := (&http.Client{Transport: httpguard.Transport(next, lease{fence(token), t.Context()})}).Post(front.URL, "text/plain", strings.NewReader("x"))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if text, err := io.ReadAll(res.Body); err != nil || string(text) != "done" {
			return fmt.Errorf("answered %q (%w)", text, err)
		}
		return nil
	}
	old := make(chan error, 1)
	go func() { old <- post(7) }()
	<-came
	claimed := time.Now()
	if err := gate.Claim(t.Context(), fence(8)); err != nil {
		t.Fatal(err)
	}
	if err := <-old; err != nil {
		t.Errorf("the overtaken request: %v", err)
	}
	go func() {
		eventually(t, "the deadline has passed", func() bool { return time.Since(claimed) > 2*linger })
		close(word)
	}()
	if err := post(8); err != nil {
		t.Errorf("the next request on its connection: %v", err)
	}
}

// A sender that stops in the middle of a long body keeps neither the resource nor the place
// of its request, whatever the upstream does about it.
func TestStalledSenderIsCutOff(t *testing.T) {
	for name, upstream := range map[string]http.HandlerFunc{
		"reads on":      func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"answers early": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) },
		"breaks off":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{Wait: stallBound, Linger: 200 * time.Millisecond})
			front := httptest.NewServer(asProxy(t, gate, upstream))
			t.Cleanup(front.CloseClientConnections)
			conn, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nFencing-Token: 7;r=\"x\";cell=\"test-00000000000000aa\"\r\nContent-Length: 1000000\r\n\r\n%s", strings.Repeat("x", 80<<10))
			eventually(t, "it was let in", func() bool { return gate.Stats().Admitted == 1 })
			if err := gate.Claim(t.Context(), fence(8)); err != nil {
				t.Fatalf("the claim: %v", err)
			}
			closed := make(chan struct{})
			go func() { front.Close(); close(closed) }()
			select {
			case <-closed:
			case <-time.After(stallBound):
				t.Error("the request is still served")
			}
		})
	}
}

// forgetful are marks that raise and lose the answer.
type forgetful struct {
	httpguard.Memory
	lose atomic.Bool
}

var errMarks = errors.New("test: the answer is lost")

func (m *forgetful) Claim(ctx context.Context, f guard.Fence) error {
	err := m.Memory.Claim(ctx, f)
	if m.lose.Load() {
		return errMarks
	}
	return err
}

// A request that is overtaken by a raise whose answer was lost learns of it as well.
func TestOvertakenByALostRaise(t *testing.T) {
	marks := &forgetful{}
	gate := httpguard.NewGate(marks, httpguard.Options{Wait: stallBound})
	came := make(chan struct{})
	front := httptest.NewServer(gate.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(came)
		<-r.Context().Done()
	})))
	defer front.Close()
	w := &world{front: front.URL, next: newLossy(t)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	old := make(chan error, 1)
	go func() { old <- w.send(ctx, fence(7), url.Values{}, "x") }()
	<-came
	marks.lose.Store(true)
	if err := gate.Claim(t.Context(), fence(8)); !errors.Is(err, httpguard.ErrBusy) {
		t.Errorf("the lost answer: %v", err)
	}
	marks.lose.Store(false)
	if err := gate.Claim(t.Context(), fence(8)); err != nil {
		t.Errorf("the claim: %v", err)
		cancel()
	}
	if err := <-old; err != nil {
		t.Errorf("the old request: %v", err)
	}
}

// stuck are marks that do not answer, whatever the context says, until they are told to.
type stuck struct {
	httpguard.Memory
	word chan struct{}
}

func (m *stuck) Claim(ctx context.Context, f guard.Fence) error {
	<-m.word
	return m.Memory.Claim(context.WithoutCancel(ctx), f)
}

// Marks on a disk that hangs keep nobody waiting for ever, and are asked again when they are
// back.
func TestMarksThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marks := &stuck{word: make(chan struct{})}
		gate := httpguard.NewGate(marks, httpguard.Options{Wait: time.Second})
		begun := time.Now()
		if err := gate.Claim(t.Context(), fence(7)); !errors.Is(err, httpguard.ErrBusy) || time.Since(begun) > time.Minute {
			t.Errorf("while they hang: %v after %v", err, time.Since(begun))
		}
		close(marks.word)
		if err := gate.Claim(t.Context(), fence(7)); err != nil {
			t.Errorf("when they are back: %v", err)
		}
	})
}

// twofold are marks that refuse every claim by a mark that they do not show.
type twofold struct{}

func (twofold) Claim(_ context.Context, f guard.Fence) error {
	return &guard.StaleError{Resource: f.Resource, Shown: f.Token, Seen: 9, Verdict: guard.Stale}
}

func (twofold) Seen(context.Context, string) (guard.State, error) {
	return guard.State{Cell: fence(1).Cell, Seen: 3}, nil
}

func TestMarksThatContradictThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := httpguard.NewGate(twofold{}, httpguard.Options{Wait: time.Hour})
		if err := gate.Claim(t.Context(), fence(7)); !errors.Is(err, httpguard.ErrBusy) {
			t.Errorf("claimed: %v", err)
		}
	})
}

// broken are marks that cannot be read or raised.
type broken struct{}

func (broken) Claim(context.Context, guard.Fence) error { return errCut }

func (broken) Seen(context.Context, string) (guard.State, error) { return guard.State{}, errCut }

// On the guard's own paths a refusal is one, also where it cannot name what was shown.
func TestRefusalOfOwnPathIsAnError(t *testing.T) {
	gate := httpguard.NewGate(broken{}, httpguard.Options{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			r.Header.Del("Fencing-Token") // as something between them may
		}
		gate.Middleware(http.NotFoundHandler()).ServeHTTP(w, r)
	}))
	defer front.Close()
	client, err := httpguard.NewClient(front.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Seen(t.Context(), "x"); !errors.Is(err, httpguard.ErrBusy) {
		t.Errorf("a mark that cannot be read: %v", err)
	}
	if err := client.Claim(t.Context(), fence(7)); !errors.Is(err, guard.ErrMissing) {
		t.Errorf("a claim whose fence was lost on the way: %v", err)
	}
}

// silent sends requests and tells nothing of their way.
type silent struct{ sent atomic.Int32 }

func (s *silent) RoundTrip(*http.Request) (*http.Response, error) {
	s.sent.Add(1)
	return nil, errCut
}

// What a transport sends that does not tell of its connections may have arrived.
func TestSilentTransportIsUnknown(t *testing.T) {
	gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{Wait: time.Millisecond, Linger: time.Hour})
	front := httptest.NewServer(gate.Proxy(parsed(t, "http://127.0.0.1:1"), &silent{}, quiet))
	defer front.Close()
	w := &world{front: front.URL, next: newLossy(t)}
	if err := w.send(t.Context(), fence(7), url.Values{}, "x"); !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("behind the proxy: %v", err)
	}
	if err := gate.Claim(t.Context(), fence(8)); !errors.Is(err, httpguard.ErrBusy) {
		t.Errorf("the claim beside it: %v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := httpguard.Transport(&silent{}, lease{fence(7), t.Context()}).RoundTrip(req); !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("of the caller: %v", err)
	}
}

// A read that asks for another method is none, whichever way a service may spell its header.
func TestMethodOverrideIsNoRead(t *testing.T) {
	for name, how := range map[string]form{"middleware": asMiddleware, "proxy": asProxy} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, how, &httpguard.Memory{}, httpguard.Options{})
			for _, h := range []string{"X-HTTP-Method-Override: DELETE", "x-http-method: PUT", "X-Method-Override: POST", "X_HTTP_Method_Override: POST"} {
				if res := raw(t, w.front, "GET /append?list=x HTTP/1.1\r\nHost: x\r\n"+h+"\r\n\r\n"); res.StatusCode != http.StatusPreconditionRequired {
					t.Errorf("%s: answered %s", h, res.Status)
				}
			}
			if got, _ := w.lists.read(t.Context(), "x"); len(got) != 0 {
				t.Errorf("the service did %q", got)
			}
		})
	}
}

// The upstream sees the fence, also where the caller calls it a header of the connection.
func TestFenceIsForwarded(t *testing.T) {
	gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{})
	front := httptest.NewServer(asProxy(t, gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get(httpguard.TokenHeader))
	})))
	defer front.Close()
	res := raw(t, front.URL, "POST / HTTP/1.1\r\nHost: x\r\nConnection: Fencing-Token\r\nFencing-Token: 7;r=\"x\"\r\nContent-Length: 0\r\n\r\n")
	if text, _ := io.ReadAll(res.Body); string(text) != `7;r="x"` {
		t.Errorf("the upstream saw %q", text)
	}
}

// What another guard says to the service, and the service hands on, is the service's answer:
// it may have done something by then.
func TestRefusalOfAnotherGuardIsAnAnswer(t *testing.T) {
	for name, about := range map[string]string{
		"another resource": `"type":"` + httpguard.TypeStale + `","resource":"other","shown":"7","seen":"9"`,
		"another token":    `"type":"` + httpguard.TypeStale + `","resource":"x","shown":"3","seen":"9"`,
		"no higher token":  `"type":"` + httpguard.TypeStale + `","resource":"x","shown":"7","seen":"7"`,
		"no resource":      `"type":"` + httpguard.TypeStale + `","seen":"9"`,
		"another cell":     `"type":"` + httpguard.TypeForeign + `","resource":"other","shown":"7"`,
		"no fence":         `"type":"` + httpguard.TypeMissing + `"`,
		"a malformed one":  `"type":"` + httpguard.TypeMalformed + `"`,
		"busy":             `"type":"` + httpguard.TypeBusy + `"`,
		"no upgrade":       `"type":"` + httpguard.TypeUpgrade + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{})
			front := httptest.NewServer(asProxy(t, gate, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusPreconditionFailed)
				fmt.Fprintf(w, "{%s}", about)
			})))
			defer front.Close()
			res, err := (&http.Client{Transport: httpguard.Transport(nil, lease{fence(7), t.Context()})}).Post(front.URL, "text/plain", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), about) {
				t.Errorf("answered %q (%v)", text, err)
			}
		})
	}
}
