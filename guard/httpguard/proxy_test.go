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
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
)

// raw sends text over a connection of its own and returns the answer.
func raw(t *testing.T, front, text string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(front, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// What a guard answers to what curl can send.
func TestAnswers(t *testing.T) {
	for name, how := range map[string]form{"middleware": asMiddleware, "proxy": asProxy} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, how, &httpguard.Memory{}, httpguard.Options{})
			if err := w.client.Claim(t.Context(), guard.Fence{Resource: "x", Token: 43, Cell: "c"}); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				request, header string
				status          int
				kind            string
			}{
				{"POST /append?list=x", "", 428, httpguard.TypeMissing},
				{"DELETE /append?list=x", "", 428, httpguard.TypeMissing},
				{"POST /append?list=x", `Fencing-Token: 0;r="x"`, 428, httpguard.TypeMissing},
				{"POST /append?list=x", `Fencing-Token: 42;r="x";cell="c"`, 412, httpguard.TypeStale},
				{"GET /append?list=x", `Fencing-Token: 42;r="x";cell="c"`, 412, httpguard.TypeStale},
				{"POST /append?list=x", `Fencing-Token: 44;r="x";cell="d"`, 412, httpguard.TypeForeign},
				{"POST /append?list=x", `Fencing-Token: 44;r="x"`, 412, httpguard.TypeForeign},
				{"POST /append?list=x", `Fencing-Token: 44`, 400, httpguard.TypeMalformed},
				{"POST /append?list=x", "Fencing-Token: 44;r=\"x\"\r\nFencing-Token: 45;r=\"x\"", 400, httpguard.TypeMalformed},
				{"POST /append?list=x", `Fencing-Token: 43;r="x";cell="c"`, 200, ""},
				{"GET /append?list=x", "", 200, ""},
				{"HEAD /append?list=x", "", 200, ""},
				{"POST /.pawl/claim", `Fencing-Token: 43;r="x";cell="c"`, 204, ""},
				{"POST /.pawl/claim", `Fencing-Token: 42;r="x";cell="c"`, 412, httpguard.TypeStale},
				{"POST /.pawl/claim", "", 428, httpguard.TypeMissing},
				{"GET /.pawl/claim", "", 405, ""},
				{"GET /.pawl/seen?r=x", "", 200, ""},
				{"GET /.pawl/seen", "", 400, httpguard.TypeMalformed},
				{"GET /.pawl/other", "", 404, ""},
			} {
				res := raw(t, w.front, c.request+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"+c.header+strings.Repeat("\r\n", min(len(c.header), 1)+1))
				text, _ := io.ReadAll(res.Body)
				if res.StatusCode != c.status || !strings.Contains(string(text), c.kind) {
					t.Errorf("%s %s: %s %s", c.request, c.header, res.Status, text)
				}
				if seen := res.Header.Get(httpguard.SeenHeader); c.kind == httpguard.TypeStale && seen != "43" {
					t.Errorf("%s %s: seen %q", c.request, c.header, seen)
				}
			}
			if name == "middleware" {
				return
			}
			for _, header := range []string{"Connection: Upgrade\r\nUpgrade: websocket", "Connection: keep-alive, upgrade\r\nUpgrade: x\r\nFencing-Token: 43;r=\"x\";cell=\"c\""} {
				if res := raw(t, w.front, "GET / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n\r\n"); res.StatusCode != 501 {
					t.Errorf("%s: %s", header, res.Status)
				}
			}
			if res := raw(t, w.front, "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n"); res.StatusCode != 501 {
				t.Errorf("CONNECT: %s", res.Status)
			}
		})
	}
}

func TestGuardReads(t *testing.T) {
	w := newWorld(t, asProxy, &httpguard.Memory{}, httpguard.Options{GuardReads: true, Resource: "x", Cell: "c"})
	if res := raw(t, w.front, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); res.StatusCode != 428 {
		t.Error(res.Status)
	}
	if res := raw(t, w.front, "GET / HTTP/1.1\r\nHost: x\r\nFencing-Token: 1\r\n\r\n"); res.StatusCode != 200 {
		t.Error(res.Status)
	}
}

// The caller of a request goes away while the upstream works. The request is in flight until
// the upstream has answered.
func TestCallerGoesWhileUpstreamWorks(t *testing.T) {
	w := newWorld(t, asProxy, &httpguard.Memory{}, httpguard.Options{Wait: 20 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	tx, err := w.begin(ctx, fence(7), "late")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-tx.(*open).answer; !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("the caller was told %v", err)
	}
	if err := w.client.Wait(0).Claim(t.Context(), fence(8)); !errors.Is(err, httpguard.ErrBusy) {
		t.Errorf("a claim that does not wait: %v", err)
	}
	claimed := make(chan error, 1)
	go func() { claimed <- w.client.Claim(t.Context(), fence(8)) }()
	for w.gate.Stats().Waiting == 0 {
		select {
		case err := <-claimed:
			t.Fatalf("claimed beside what is in flight: %v", err)
		default:
		}
	}
	tx.(*open).at.word <- true
	if err := <-claimed; err != nil {
		t.Fatal(err)
	}
	if got, _ := w.lists.read(t.Context(), "x"); len(got) != 1 {
		t.Errorf("after the claim the list is %q", got)
	}
}

// An upstream that breaks the connection, or does not answer, may still be at work.
func TestUpstreamBreaksOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		linger time.Duration
		how    func(conn net.Conn, in *bufio.Reader, stop <-chan struct{})
		taints bool
	}{
		{"breaks before its answer", time.Hour, func(net.Conn, *bufio.Reader, <-chan struct{}) {}, true},
		{"breaks within its answer", time.Hour, func(conn net.Conn, _ *bufio.Reader, _ <-chan struct{}) {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		}, true},
		{"switches protocols", time.Hour, func(conn net.Conn, _ *bufio.Reader, stop <-chan struct{}) {
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
			<-stop
		}, true},
		{"hangs", 50 * time.Millisecond, func(_ net.Conn, _ *bufio.Reader, stop <-chan struct{}) { <-stop }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			t.Cleanup(func() { l.Close(); close(stop) })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						in := bufio.NewReader(conn)
						req, err := http.ReadRequest(in)
						if err == nil {
							_, _ = io.Copy(io.Discard, req.Body)
							c.how(conn, in, stop)
						}
					}()
				}
			}()
			gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{Wait: 20 * time.Millisecond, Linger: c.linger})
			front := httptest.NewServer(gate.Proxy(parsed(t, "http://"+l.Addr().String()), nil, quiet))
			t.Cleanup(front.Close)
			w := &world{front: front.URL, next: newLossy(t), gate: gate}
			err = w.send(t.Context(), fence(7), url.Values{}, "text")
			if err == nil || errors.Is(err, httpguard.ErrBusy) {
				t.Errorf("the caller was told %v", err)
			}
			// The claim comes before Linger is over, or after it.
			err = gate.Claim(t.Context(), fence(8))
			if errors.Is(err, httpguard.ErrBusy) != c.taints {
				t.Errorf("the claim: %v", err)
			}
			if s := gate.Stats(); s.Unknown != 1 || s.InFlight != 0 || c.taints && s.Tainted != 1 {
				t.Errorf("counted %+v", s)
			}
		})
	}
}

// An upstream that cannot be reached has received nothing.
func TestUpstreamUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{})
	front := httptest.NewServer(gate.Proxy(parsed(t, "http://"+l.Addr().String()), nil, quiet))
	defer front.Close()
	w := &world{front: front.URL, next: newLossy(t), gate: gate}
	if err := w.send(t.Context(), fence(7), url.Values{}, "text"); !errors.Is(err, httpguard.ErrBusy) {
		t.Errorf("the caller was told %v", err)
	}
	if err := gate.Claim(t.Context(), fence(8)); err != nil {
		t.Errorf("the claim: %v", err)
	}
}

// A sender that stops in the middle of a short body is not in flight.
func TestSlowSenderKeepsNobodyWaiting(t *testing.T) {
	w := newWorld(t, asProxy, &httpguard.Memory{}, httpguard.Options{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.front, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /append?list=x HTTP/1.1\r\nHost: x\r\nFencing-Token: 7;r=\"x\";cell=\"test-00000000000000aa\"\r\nContent-Length: 10\r\n\r\nhalf")
	if err := w.client.Claim(t.Context(), fence(8)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "-and-.")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("the late rest: %v, %v", res, err)
	}
}

// Under the middleware a handler that waits for the rest of a body fails when it is overtaken.
func TestOvertakenUploadEnds(t *testing.T) {
	gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{Wait: time.Minute})
	came, read := make(chan struct{}), make(chan error, 1)
	front := httptest.NewServer(gate.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(came)
		_, err := io.ReadAll(r.Body)
		if f, ok := httpguard.FenceFrom(r.Context()); !ok || f != fence(7) || !errors.Is(context.Cause(r.Context()), httpguard.ErrSuperseded) {
			t.Errorf("its context has %v, %v", f, context.Cause(r.Context()))
		}
		read <- err
	})))
	defer front.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nFencing-Token: 7;r=\"x\";cell=\"test-00000000000000aa\"\r\nContent-Length: 10\r\n\r\nhalf")
	<-came
	if err := gate.Claim(t.Context(), fence(8)); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err == nil {
		t.Error("the body was read to its end")
	}
}

// A large body and its answer go through whole.
func TestLargeBodies(t *testing.T) {
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, _ = w.Write(text)
	}))
	defer back.Close()
	gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{})
	front := httptest.NewServer(gate.Proxy(parsed(t, back.URL), nil, quiet))
	defer front.Close()
	client := &http.Client{Transport: httpguard.Transport(nil, lease{fence(7), t.Context()})}
	for _, n := range []int{0, 1, 64 << 10, 64<<10 + 1, 4 << 20} {
		text := strings.Repeat("x", n)
		for _, body := range []io.Reader{strings.NewReader(text), struct{ io.Reader }{strings.NewReader(text)}} {
			res, err := client.Post(front.URL, "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != text {
				t.Errorf("%d of %d bytes came back (%v)", len(got), n, err)
			}
			res.Body.Close()
		}
	}
	if s := gate.Stats(); s.Unknown != 0 {
		t.Errorf("counted %+v", s)
	}
}
