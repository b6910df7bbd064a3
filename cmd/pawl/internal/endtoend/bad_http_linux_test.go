package endtoend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/testwait"
)

// answer is what a request over HTTP got.
type answer struct {
	status int
	kind   string // content type
	text   string
}

func (a answer) field(name string) string {
	var fields map[string]any
	_ = json.Unmarshal([]byte(a.text), &fields) // no object has no fields
	s, _ := fields[name].(string)
	return s
}

func (s *server) ask(method, path string, body io.Reader, header ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.http+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := web.Do(req)
	if err != nil {
		s.t.Fatalf("%s %.100s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		s.t.Fatalf("%s %.100s: %v", method, path, err)
	}
	return answer{res.StatusCode, res.Header.Get("Content-Type"), string(text)}
}

// endless is a body that goes on until nobody reads it. The client may still be
// sending when the answer is there.
type endless struct{ left atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	n := int(min(int64(len(b)), e.left.Load()))
	if n == 0 {
		return 0, io.EOF
	}
	for i := range n {
		b[i] = '['
	}
	e.left.Add(int64(-n))
	return n, nil
}

// checkHealthy looks whether a server came through a tour of bad input: it is ready, has
// no more goroutines and memory than a server has, and did not panic.
func (s *server) checkHealthy(goroutines int) {
	s.t.Helper()
	if code, text := s.get("/readyz"); code != http.StatusOK {
		s.t.Errorf("/readyz: %d %s", code, text)
	}
	if said := s.said(); strings.Contains(said, "panic") || strings.Contains(said, "goroutine ") {
		s.t.Errorf("the server panicked:\n%.4000s", said)
	}
	web.CloseIdleConnections()
	testwait.Until(s.t, bound, "the server's goroutines end", func() bool { return s.goroutines() <= goroutines+3 })
	testwait.Until(s.t, 2*bound, "what the server took for bad input is given back", func() bool {
		return s.memory("RssAnon") < footprintMax
	})
}

func (s *server) goroutines() int {
	s.t.Helper()
	_, text := s.get("/metrics")
	m := regexp.MustCompile(`(?m)^go_goroutines (\d+)$`).FindStringSubmatch(text)
	if m == nil {
		s.t.Fatalf("/metrics tells no goroutines:\n%.1000s", text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func TestBadRequests(t *testing.T) {
	s := newServer(t)
	s.up()
	before := s.goroutines()
	const free = `{"name":"a"`
	for _, tc := range []struct {
		method, path, body string
		header             []string
		status             int
		says               string
	}{
		{"POST", "/v1/leases", ``, nil, 400, "body"},
		{"POST", "/v1/leases", `nonsense`, nil, 400, "not JSON"},
		{"POST", "/v1/leases", `{"name":"a"`, nil, 400, "ends too early"},
		{"POST", "/v1/leases", `[]`, nil, 400, "an object in braces was expected"},
		{"POST", "/v1/leases", `{}`, nil, 400, "name"},
		{"POST", "/v1/leases", free + `,"name":"b"}`, nil, 400, "twice"},
		{"POST", "/v1/leases", free + `,"wait":"-1s"}`, nil, 400, "0 to 24h was expected"},
		{"POST", "/v1/leases", free + `,"wait":"25h"}`, nil, 400, "0 to 24h was expected"},
		{"POST", "/v1/leases", free + `,"wait":-1}`, nil, 400, "(a duration as text) was expected"},
		{"POST", "/v1/leases", free + `,"ttl":"-10s"}`, nil, 400, "1s to 24h was expected"},
		{"POST", "/v1/leases", free + `,"ttl":"0s"}`, nil, 400, "1s to 24h was expected"},
		{"POST", "/v1/leases", free + `,"ttl":"10"}`, nil, 400, "expected a number and a unit"},
		{"POST", "/v1/leases", free + `,"ttl":"99999999999999h"}`, nil, 400, "expected a number and a unit"},
		{"POST", "/v1/leases", free + `,"ttl":"1h","session":"x"}`, nil, 400, "expected one"},
		{"POST", "/v1/leases", free + `,"session":"x"}`, nil, 404, "32 hex digits"},
		{"POST", "/v1/leases", free + `,"session":"x","request_id":"r"}`, nil, 404, "32 hex digits"},
		{"POST", "/v1/leases", free + `,"nonsense":true}`, nil, 400, "nonsense"},
		{"POST", "/v1/leases", free + `,"label":"` + strings.Repeat("l", 257) + `"}`, nil, 400, "at most 256"},
		{"POST", "/v1/leases", strings.Repeat("[", 60_000), nil, 400, "body"},
		{"POST", "/v1/leases", free + `}`, []string{"Content-Type", "text/xml"}, 400, "expected application/json"},
		{"POST", "/v1/leases", free + `}`, []string{"Origin", "http://elsewhere.example"}, 403, "origin"},
		{"POST", "/v1/leases", free + `}`, []string{"Host", "elsewhere.example"}, 403, "--http-host"},
		{"POST", "/v1/sessions", `{"ttl":"1ns"}`, nil, 400, "1s to 24h was expected"},
		{"POST", "/v1/sessions/%00%ff/renew", ``, nil, 404, "32 hex digits"},
		{"POST", "/v1/leases/" + strings.Repeat("f", 32) + "/renew", ``, nil, 404, "no such lease"},
		{"DELETE", "/v1/leases/x", ``, nil, 404, "32 hex digits"},
		{"POST", "/v1/break", `{"name":"a","fencing_token":"0","reason":"r"}`, nil, 400, "1 to 2^53-1"},
		{"POST", "/v1/break", `{"name":"a","fencing_token":"-1","reason":"r"}`, nil, 400, "1 to 2^53-1"},
		{"POST", "/v1/break", `{"name":"a","fencing_token":"9007199254740992","reason":"r"}`, nil, 400, "1 to 2^53-1"},
		{"POST", "/v1/break", `{"name":"a","fencing_token":1,"reason":"r"}`, nil, 400, "(a number as text) was expected"},
		{"POST", "/v1/break", `{"name":"a","fencing_token":"1","reason":""}`, nil, 400, "reason"},
		{"POST", "/v1/break", `{"name":"a","fencing_token":"1","reason":"r"}`, nil, 412, "free"},
		{"GET", "/v1/locks?nonsense=1", ``, nil, 400, "nonsense"},
		{"GET", "/v1/locks?page_token=none!", ``, nil, 400, "expected the next_page_token"},
		{"GET", "/v1/locks?name=%zz", ``, nil, 400, "percent-encoded"},
		{"GET", "/v1/locks?name=" + strings.Repeat("n", 20_000), ``, nil, 400, "at most 512"},
		{"PATCH", "/v1/leases", `{}`, nil, 405, "expected POST"},
		{"GET", "/v1/leases", ``, nil, 405, "expected POST"},
		{"BREW", "/v1/status", ``, nil, 405, "expected GET"},
		{"DELETE", "/metrics", ``, nil, 405, "expected GET"},
		{"GET", "/v1/nothing", ``, nil, 404, "/openapi.json"},
		{"GET", "/" + strings.Repeat("x", 20_000), ``, nil, 404, "/openapi.json"},
	} {
		a := s.ask(tc.method, tc.path, strings.NewReader(tc.body), tc.header...)
		if a.status != tc.status || a.kind != "application/problem+json" || !strings.Contains(a.field("detail"), tc.says) || a.field("reason") == "" {
			t.Errorf("%s %.100s %.100q: expected %d and %q, got %d (%s) %.500s", tc.method, tc.path, tc.body, tc.status, tc.says, a.status, a.kind, a.text)
		}
	}
	if page := s.ask("GET", "/v1/locks", nil); !strings.Contains(page.text, `"locks":[]`) {
		t.Errorf("something was acquired: %s", page.text)
	}
	s.checkHealthy(before)
}

// Bodies and heads beyond every bound end early, and cost the server nothing.
func TestHugeRequests(t *testing.T) {
	s := newServer(t)
	s.up()
	before := s.goroutines()
	for _, size := range []int64{64<<10 + 1, 1 << 20, 256 << 20} {
		for _, path := range []string{"/v1/leases", "/v1/sessions", "/v1/break", "/v1/leases/x/renew"} {
			body := &endless{}
			body.left.Store(size)
			// The server may hang up while the body is being sent, which is an answer.
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.http+path, body)
			if err != nil {
				t.Fatal(err)
			}
			res, err := web.Do(req)
			if err == nil {
				if res.StatusCode != http.StatusBadRequest {
					t.Errorf("%d bytes to %s: %s", size, path, res.Status)
				}
				res.Body.Close()
			}
			if sent := size - body.left.Load(); sent > 32<<20 {
				t.Errorf("of %d bytes to %s the server took %d", size, path, sent)
			}
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.http+"/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Long", strings.Repeat("x", 100_000))
	// Here, too, the server may hang up while the head is being sent.
	switch res, err := web.Do(req); {
	case err == nil:
		if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a head of 100,000 bytes: %s", res.Status)
		}
		res.Body.Close()
	case !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE):
		t.Errorf("a head of 100,000 bytes: %v", err)
	}
	s.checkHealthy(before)
}

// Bytes that are no request, on both ports, in whole and in part, and from
// callers that say nothing at all.
func TestNoise(t *testing.T) {
	s := newServer(t)
	s.up()
	before := s.goroutines()
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(random.UintN(256))
	}
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	lines := []string{
		"", "\x00", "GET", "GET / HTTP/1.1\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /v1/status HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"POST /v1/leases HTTP/1.1\r\nHost: " + s.http + "\r\nContent-Length: -1\r\n\r\n",
		"POST /v1/leases HTTP/1.1\r\nHost: " + s.http + "\r\nContent-Length: 100\r\n\r\n{",
		"POST /v1/leases HTTP/1.1\r\nHost: " + s.http + "\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", preface, preface + string(noise[:9]), preface + "\xff\xff\xff" + string(noise),
		string(noise),
	}
	var all sync.WaitGroup
	for _, address := range []string{s.http, s.link} {
		for _, line := range lines {
			for range 4 {
				all.Go(func() {
					conn, err := net.Dial("tcp", address)
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					_ = conn.SetDeadline(time.Now().Add(time.Second))
					_, _ = io.Copy(conn, bytes.NewReader([]byte(line))) // it may hang up
					_, _ = io.Copy(io.Discard, conn)                    // until one of us has had enough
				})
			}
		}
	}
	all.Wait()
	c := dial(t, s.link, time.Minute)
	acquire(t, c, "a")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	s.checkHealthy(before)
}

// C78, C79: HTTP, the command line and the SDK accept the same names, and refuse the
// same ones with the same words. An accepted name is listed unchanged, and names that
// look like it are other names.
func TestNamesEverywhere(t *testing.T) {
	s := newServer(t)
	s.up()
	taken := []string{
		"a/b", "a", "a/", "ab", "a/b/c", "A/B", ".", "..", "/", "//", "file:///x", " ", "with blanks ", "%2F", "%", "+", "?", "#",
		"a?b=c&d#e", "-x", "--help", "=", "🔒", "\u00e9", "e\u0301", `"quoted"`, `back\slash`, "<tag>", "$HOME", "'", "*", "\u2028",
		"x", strings.Repeat("n", 512), strings.Repeat("é", 256),
	}
	refused := []string{"", "a\nb", "a\tb", "\x7f", "\u0085", "\xff", strings.Repeat("n", 513), strings.Repeat("n", 1024), strings.Repeat("é", 256) + "n"}
	c := dial(t, s.link, time.Hour)
	listed := map[string]bool{}
	for i, name := range taken {
		// By turns, each name by one of the three, and every one by all of them.
		switch i % 3 {
		case 0:
			acquire(t, c, name)
		case 1:
			s.want(0, "acquire", "--ttl", "1h", "--", name)
		default:
			body, err := json.Marshal(map[string]string{"name": name, "ttl": "1h"})
			if err != nil {
				t.Fatal(err)
			}
			if a := s.ask("POST", "/v1/leases", bytes.NewReader(body)); a.status != http.StatusOK || a.field("name") != name {
				t.Errorf("%q over HTTP: %d %s", name, a.status, a.text)
			}
		}
		listed[name] = true
		if got := s.lookUp(name); got.Name != name || len(got.Holders) != 1 || len(got.Waiters) != 0 {
			t.Errorf("%q is listed as %+v", name, got)
		}
		if got := read[locked](t, s.want(0, "show", "--json", "--", name).stdout); got.Name != name || len(got.Holders) != 1 {
			t.Errorf("%q is shown as %+v", name, got)
		}
		if _, err := c.TryAcquire(t.Context(), name); err == nil || !strings.Contains(err.Error(), "held by") {
			t.Errorf("%q by the SDK: %v", name, err)
		}
		s.want(75, "acquire", "--", name)
	}
	var all []string
	for line := range strings.Lines(s.want(0, "ls", "--json").stdout) {
		all = append(all, read[locked](t, line).Name)
	}
	if want := slices.Sorted(maps.Keys(listed)); !slices.Equal(slices.Sorted(slices.Values(all)), want) {
		t.Errorf("%q are held; listed are %q", want, all)
	}
	for _, name := range refused {
		_, err := c.TryAcquire(t.Context(), name)
		if err == nil {
			t.Errorf("the SDK took %q", name)
			continue
		}
		_, why, _ := strings.Cut(err.Error(), "invalid: ")
		if why == "" {
			t.Errorf("%.20q was refused by the SDK with %q", name, err)
		}
		// The words are one text everywhere.
		contains(t, s.want(64, "acquire", "--", name).stderr, why)
		contains(t, s.want(64, "run", "--", name, "true").stderr, "NAME is missing")
		contains(t, s.want(64, "show", "--", name).stderr, why)
		a := s.ask("POST", "/v1/leases", strings.NewReader(fmt.Sprintf(`{"name":"%s"}`, escaped(name))))
		if a.status != http.StatusBadRequest || !strings.Contains(a.text, "UTF-8") && a.field("detail") != why {
			t.Errorf("%.20q was refused over HTTP with %d %s; the SDK says %q", name, a.status, a.text, why)
		}
		if a := s.ask("GET", "/v1/locks?name="+url.QueryEscape(name), nil); a.status != http.StatusBadRequest {
			t.Errorf("%.20q was listed with %d %s", name, a.status, a.text)
		}
	}
}

// escaped writes a string into JSON byte by byte, valid or not.
func escaped(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			fmt.Fprintf(&b, `\u%04x`, s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
