package rest_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/memstore"
	"github.com/pawlproject/pawl/internal/testwait"
)

const bound = 30 * time.Second

// serve puts the HTTP interface before a real cell on the memory store.
func serve(t *testing.T) *client {
	t.Helper()
	clk := clock.System()
	c := cell.New(cell.Options{
		Store: memstore.NewDisk().Store(memstore.Options{Clock: clk, Sole: true}),
		Clock: clk, Name: "test", ActiveTTL: 3 * time.Second,
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the cell: %v", err)
		}
	})
	<-c.Ready()
	return handlerOf(t, c)
}

func handlerOf(t *testing.T, c rest.Cell) *client {
	t.Helper()
	h, err := rest.NewHandler(rest.Options{
		Cell: c, Clock: clock.System(), Version: "test", Store: "memory",
		AllowedHost: rest.HostCheck("127.0.0.1:0", []string{"locks.example"}),
		Logger:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &client{t, s}
}

type client struct {
	t *testing.T
	s *httptest.Server
}

// answer is a body in JSON with the status that it came with.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func (a answer) text(key string) string {
	s, _ := a.body[key].(string)
	return s
}

// do sends what curl -d would.
func (c *client) do(method, path, body string, change ...func(*http.Request)) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.s.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, f := range change {
		f(r)
	}
	res, err := c.s.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header}
	if err := json.Unmarshal(raw, &a.body); err != nil {
		c.t.Fatalf("%s %s: %q is not JSON: %v", method, path, raw, err)
	}
	if _, odd := a.body["$schema"]; odd {
		c.t.Errorf("%s %s: the answer has $schema", method, path)
	}
	return a
}

func (c *client) want(status int, method, path, body string) answer {
	c.t.Helper()
	a := c.do(method, path, body)
	if a.status != status {
		c.t.Fatalf("%s %s %s: status %d, expected %d: %v", method, path, body, a.status, status, a.body)
	}
	return a
}

// refused expects a problem of this status and reason.
func (c *client) refused(status int, reason, method, path, body string, change ...func(*http.Request)) answer {
	c.t.Helper()
	a := c.do(method, path, body, change...)
	if a.status != status || a.text("reason") != reason {
		c.t.Errorf("%s %s %.80s: %d %q, expected %d %q: %v", method, path, body, a.status, a.text("reason"), status, reason, a.body)
	}
	if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
		c.t.Errorf("%s %s %.80s: content type %q", method, path, body, ct)
	}
	if a.body["status"] != float64(status) || a.text("title") != http.StatusText(status) || a.text("detail") == "" {
		c.t.Errorf("%s %s %.80s: the problem is not whole: %v", method, path, body, a.body)
	}
	return a
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestLeaseFromGrantToRelease(t *testing.T) {
	c := serve(t)
	first := c.want(200, "POST", "/v1/leases", `{"name":"orders/7","ttl":"10s","label":"billing"}`)
	for _, key := range []string{"lease", "session", "fencing_token", "fence", "cell"} {
		if first.text(key) == "" {
			t.Errorf("the lease has no %s: %v", key, first.body)
		}
	}
	if first.text("name") != "orders/7" || first.text("ttl") != "10s" || first.text("waited") != "0s" || first.body["slot"] != 0.0 {
		t.Errorf("the lease is %v", first.body)
	}
	held := c.refused(409, "held", "POST", "/v1/leases", `{"name":"orders/7"}`)
	holder, _ := held.body["holder"].(map[string]any)
	if holder["fencing_token"] != first.text("fencing_token") || holder["label"] != "billing" {
		t.Errorf("the holder is %v", holder)
	}
	for _, secret := range []string{first.text("lease"), first.text("session")} {
		if strings.Contains(held.text("detail")+quote(holder["holder"].(string)), secret) {
			t.Errorf("a refusal shows a capability: %v", held.body)
		}
	}
	renewed := c.want(200, "POST", "/v1/leases/"+first.text("lease")+"/renew", "")
	if renewed.text("ttl") != "10s" || renewed.text("session") != first.text("session") || len(renewed.body) != 2 {
		t.Errorf("renewed: %v", renewed.body)
	}
	if a := c.want(200, "DELETE", "/v1/leases/"+first.text("lease"), ""); len(a.body) != 0 {
		t.Errorf("a DELETE answers %v", a.body)
	}
	c.refused(404, "gone", "DELETE", "/v1/leases/"+first.text("lease"), "")
	c.refused(404, "gone", "POST", "/v1/leases/"+first.text("lease")+"/renew", "")
	second := c.want(200, "POST", "/v1/leases", `{"name":"orders/7"}`)
	if second.text("ttl") != "15s" || second.text("fencing_token") <= first.text("fencing_token") {
		t.Errorf("after %v came %v", first.body, second.body)
	}
}

func TestSessionHoldsAndEndsItsLeases(t *testing.T) {
	c := serve(t)
	s := c.want(200, "POST", "/v1/sessions", `{"ttl":"10s","label":"x"}`)
	if s.text("ttl") != "10s" || len(s.body) != 2 {
		t.Errorf("a session is %v", s.body)
	}
	id := s.text("session")
	l := c.want(200, "POST", "/v1/leases", `{"name":"a","session":`+quote(id)+`,"request_id":"one"}`)
	if l.text("session") != id || l.text("ttl") != "10s" {
		t.Errorf("the lease is %v", l.body)
	}
	c.want(200, "POST", "/v1/sessions/"+id+"/renew", "")
	c.refused(400, "invalid", "POST", "/v1/leases", `{"name":"b","session":`+quote(id)+`,"ttl":"10s"}`)
	c.want(200, "DELETE", "/v1/sessions/"+id, "")
	c.refused(404, "gone", "POST", "/v1/sessions/"+id+"/renew", "")
	c.refused(404, "gone", "DELETE", "/v1/sessions/"+id, "")
	c.refused(404, "gone", "POST", "/v1/leases", `{"name":"b","session":`+quote(id)+`,"request_id":"two"}`)
	c.want(200, "POST", "/v1/leases", `{"name":"a"}`)
}

func TestWaitEndsWithGrantTimeOrConnection(t *testing.T) {
	c := serve(t)
	l := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h"}`)
	c.refused(409, "held", "POST", "/v1/leases", `{"name":"a","wait":"0s"}`)
	c.refused(409, "held", "POST", "/v1/leases", `{"name":"a","wait":"1ms"}`)

	waiters := func() int {
		page := c.want(200, "GET", "/v1/locks?name=a", "")
		lock := page.body["locks"].([]any)[0].(map[string]any)
		return len(lock["waiters"].([]any))
	}
	// A client that hangs up gives its place up.
	ctx, hangUp := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", c.s.URL+"/v1/leases", strings.NewReader(`{"name":"a","wait":"1h"}`))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if res, err := c.s.Client().Do(r); err == nil {
			res.Body.Close()
		}
	}()
	testwait.Until(t, bound, "the waiter stands in the queue", func() bool { return waiters() == 1 })
	hangUp()
	<-gone
	testwait.Until(t, bound, "the waiter has left the queue", func() bool { return waiters() == 0 })

	granted := make(chan answer, 1)
	go func() { granted <- c.do("POST", "/v1/leases", `{"name":"a","wait":"1h"}`) }()
	testwait.Until(t, bound, "the waiter stands in the queue", func() bool { return waiters() == 1 })
	c.want(200, "DELETE", "/v1/leases/"+l.text("lease"), "")
	if a := <-granted; a.status != 200 || a.text("waited") == "" {
		t.Errorf("the waiter got %d %v", a.status, a.body)
	}
}

func TestRequestIDFindsItsLease(t *testing.T) {
	c := serve(t)
	const body = `{"name":"a","ttl":"1m","request_id":"one"}`
	first, again := c.want(200, "POST", "/v1/leases", body), c.want(200, "POST", "/v1/leases", body)
	if first.text("lease") != again.text("lease") || first.text("fencing_token") != again.text("fencing_token") {
		t.Errorf("the repeat of %v got %v", first.body, again.body)
	}
	c.refused(409, "conflict", "POST", "/v1/leases", `{"name":"b","ttl":"1m","request_id":"one"}`)
}

func TestBreak(t *testing.T) {
	c := serve(t)
	l := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h"}`)
	token := l.text("fencing_token")
	c.refused(412, "token_mismatch", "POST", "/v1/break", `{"name":"a","fencing_token":"1","reason":"r"}`)
	c.refused(400, "invalid", "POST", "/v1/break", `{"name":"a","fencing_token":`+token+`,"reason":"r"}`)
	c.refused(400, "invalid", "POST", "/v1/break", `{"name":"a","fencing_token":"0","reason":"r"}`)
	c.refused(400, "invalid", "POST", "/v1/break", `{"name":"a","fencing_token":"9007199254740992","reason":"r"}`)
	c.refused(400, "invalid", "POST", "/v1/break", `{"name":"a","fencing_token":`+quote(token)+`,"reason":""}`)
	c.refused(400, "invalid", "POST", "/v1/break", `{"name":"a","fencing_token":`+quote(token)+`}`)
	body := `{"name":"a","fencing_token":` + quote(token) + `,"reason":"r"`
	if a := c.want(200, "POST", "/v1/break", body+`}`); a.body["ended"] != false {
		t.Errorf("a break that asks answers %v", a.body)
	}
	shown := c.want(200, "GET", "/v1/locks?name=a", "")
	if !strings.Contains(mustJSON(shown.body), `"breaking":true`) {
		t.Errorf("the lock is %v", shown.body)
	}
	if a := c.want(200, "POST", "/v1/break", body+`,"now":true}`); a.body["ended"] != true {
		t.Errorf("a break now answers %v", a.body)
	}
	c.refused(412, "token_mismatch", "POST", "/v1/break", body+`}`)
	c.refused(404, "gone", "POST", "/v1/leases/"+l.text("lease")+"/renew", "")
	c.want(200, "POST", "/v1/leases", `{"name":"a"}`)
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// C78, C79: names that look alike are different, and names that look odd work,
// or are refused with one text.
func TestNames(t *testing.T) {
	c := serve(t)
	good := []string{
		"a/b", "a", "a/", "ab", "a/b/c", "A/B", ".", "..", "file:///x", "with blanks ", "%2F", "+", "?", "#", "a?b=c&d",
		"🔒", "\u00e9", "e\u0301", "\"quoted\"", `back\slash`, "<tag>", "x", strings.Repeat("n", bounds.NameMax),
	}
	for _, name := range good {
		l := c.want(200, "POST", "/v1/leases", `{"name":`+quote(name)+`,"ttl":"1h"}`)
		if l.text("name") != name {
			t.Errorf("%q was granted as %q", name, l.text("name"))
		}
		page := c.want(200, "GET", "/v1/locks?name="+url.QueryEscape(name), "")
		locks := page.body["locks"].([]any)
		if len(locks) != 1 || locks[0].(map[string]any)["name"] != name {
			t.Errorf("%q is listed as %v", name, locks)
		}
	}
	for _, name := range []string{"", "a\nb", "a\x00b", "\x7f", "\x1f", "\u0085", strings.Repeat("n", bounds.NameMax+1)} {
		c.refused(400, "invalid", "POST", "/v1/leases", `{"name":`+quote(name)+`}`)
		c.refused(400, "invalid", "GET", "/v1/locks?name="+url.QueryEscape(name), "")
	}
	c.refused(400, "invalid", "POST", "/v1/leases", "{\"name\":\"\xff\"}")
	c.refused(400, "invalid", "POST", "/v1/leases", `{"name":"\ud800"}`)
	c.refused(400, "invalid", "GET", "/v1/locks?name=%ff", "")

	under := c.want(200, "GET", "/v1/locks?prefix="+url.QueryEscape("a/b"), "")
	if n := len(under.body["locks"].([]any)); n != 2 {
		t.Errorf("%d names begin with a/b", n)
	}
}

func TestListPages(t *testing.T) {
	c := serve(t)
	for i := range 3 {
		c.want(200, "POST", "/v1/leases", `{"name":"n`+string(rune('0'+i))+`"}`)
	}
	all := c.want(200, "GET", "/v1/locks", "")
	if len(all.body["locks"].([]any)) != 3 || all.text("next_page_token") != "" {
		t.Errorf("the list is %v", all.body)
	}
	none := c.want(200, "GET", "/v1/locks?name=free", "")
	if got := mustJSON(none.body["locks"]); got != "[]" {
		t.Errorf("a free name is listed as %s", got)
	}
	c.refused(400, "invalid", "GET", "/v1/locks?name=a&prefix=b", "")
	c.refused(400, "invalid", "GET", "/v1/locks?page_token=%21", "")
}
