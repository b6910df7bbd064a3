package rest_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/bounds"
)

func TestOutOfRangeFieldsAreInvalid(t *testing.T) {
	c := serve(t)
	for _, body := range []string{
		``, `null`, `[]`, `"a"`, `1`, `{`, `{"name":"a"`, `{"name":"a"}x`, `{"name":"a"}{}`, `name=a`,
		`{}`, `{"name":null}`, `{"name":1}`, `{"name":["a"]}`, `{"name":""}`,
		`{"name":"a","name":"a"}`, `{"name":"a","ttl":"10s","ttl":"10s"}`, `{"Name":"a"}`, `{"name":"a","TTL":"10s"}`,
		`{"name":"a","names":["a"]}`, `{"name":"a","names":[]}`, `{"names":[]}`, `{"names":null}`, `{"names":"a"}`, `{"names":[""]}`,
		`{"names":["a",null]}`, `{"names":["a",1]}`, `{"names":["a","b\n"]}`, `{"names":["a"],"name":""}`, `{"names":{"a":"b"}}`,
		`{"name":"a","shared":1}`, `{"name":"a","shared":"true"}`, `{"name":"a","shared":null}`, `{"name":"a","Shared":true}`,
		`{"name":"a","slots":0}`, `{"name":"a","slots":-1}`, `{"name":"a","slots":10001}`, `{"name":"a","slots":"3"}`, `{"name":"a","slots":1.5}`,
		`{"name":"a","slots":1e30}`, `{"name":"a","slots":4294967297}`, `{"name":"a","shared":true,"slots":3}`, `{"name":"a","slots":[3]}`,
		`{"name":"a","value":"YQ"}`, `{"name":"a","value":"YQ==\n"}`, `{"name":"a","value":"Y\nQ=="}`, `{"name":"a","value":"YR=="}`,
		`{"name":"a","value":"-_=="}`, `{"name":"a","value":1}`, `{"name":"a","value":["YQ=="]}`, `{"name":"a","value":[97]}`,
		`{"name":"a","lock_delay":"-1ns"}`, `{"name":"a","lock_delay":"1h1ns"}`, `{"name":"a","lock_delay":1}`, `{"name":"a","lock_delay":""}`,
		`{"name":"a","claims":1}`, `{"name":"a","claims":"true"}`, `{"name":"a","claims":null}`, `{"name":"a","Claims":true}`,
		`{"name":"a","ride_through":"1h"}`, `{"name":"a","claims":false,"ride_through":"1h"}`, `{"name":"a","claims":true,"ride_through":"0s"}`,
		`{"name":"a","claims":true,"ride_through":"-1ns"}`, `{"name":"a","claims":true,"ride_through":"24h1ns"}`,
		`{"name":"a","claims":true,"ride_through":1}`, `{"name":"a","claims":true,"ride_through":null}`,
		`{"name":"a","claims":true,"ride_through":"1h","shared":true}`, `{"names":["a","b"],"claims":true,"ride_through":"1h"}`,
		`{"name":"a","":1}`, `{"name":"a","$schema":"x"}`,
		`{"name":"a","ttl":10}`, `{"name":"a","ttl":"10"}`, `{"name":"a","ttl":""}`, `{"name":"a","ttl":null}`,
		`{"name":"a","ttl":"0s"}`, `{"name":"a","ttl":"999ms"}`, `{"name":"a","ttl":"24h1ns"}`, `{"name":"a","ttl":"-10s"}`,
		`{"name":"a","ttl":"9999999h"}`, `{"name":"a","wait":"-1ns"}`, `{"name":"a","wait":"24h1ns"}`, `{"name":"a","wait":0}`,
		`{"name":"a","session":""}`, `{"name":"a","label":1}`,
		`{"name":"a","label":"` + strings.Repeat("x", 257) + `"}`,
		`{"name":"a","request_id":"` + strings.Repeat("x", 129) + `"}`,
		`{"name":"a","label":"` + strings.Repeat("x", 70_000) + `"}`,
		`{"name":"a","label":"` + strings.Repeat("x", 600_000) + `"}`,
		`{"name":"a","value":"` + base64.StdEncoding.EncodeToString(make([]byte, bounds.ValueMax+1)) + `"}`,
		`{"names":` + mustJSON(manyNames(bounds.NamesMax+1)) + `}`,
		`{"name":"` + `\udc00\ud800` + `"}`, `{"name":"a","label":"\ud83d"}`,
		strings.Repeat(`[`, 20_000),
	} {
		c.refused(400, "invalid", "POST", "/v1/leases", body)
	}
	for _, body := range []string{`{"ttl":"10s","name":"a"}`, `{"ttl":"10s","TTL":"10s"}`, `{"ttl":"1h","label":true}`} {
		c.refused(400, "invalid", "POST", "/v1/sessions", body)
	}
	if page := c.want(200, "GET", "/v1/locks", ""); len(page.body["locks"].([]any)) != 0 {
		t.Errorf("something was acquired: %v", page.body)
	}
	c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1m30s","wait":"0s","label":"\ud83d\udd12"}`)
}

func TestUnexpectedQueryOrBodyIsRefused(t *testing.T) {
	c := serve(t)
	for _, path := range []string{
		"/v1/locks?nam=a", "/v1/locks?Name=a", "/v1/locks?name=a&name=a", "/v1/locks?name=", "/v1/locks?prefix=a;b",
		"/v1/locks?name=%zz", "/v1/status?verbose=1", "/v1/locks?a",
	} {
		c.refused(400, "invalid", "GET", path, "")
	}
	c.refused(400, "invalid", "POST", "/v1/leases?ttl=10s", `{"name":"a"}`)
	c.refused(400, "invalid", "DELETE", "/v1/leases/x", `{"ttl":"10s"}`)
	c.refused(404, "gone", "POST", "/v1/leases/x/renew", `{}`)
	for _, ct := range []string{"", "application/json", "application/json; charset=utf-8", "Application/JSON"} {
		a := c.do("POST", "/v1/sessions", `{}`, func(r *http.Request) { r.Header.Set("Content-Type", ct) })
		if a.status != 200 {
			t.Errorf("content type %q: %v", ct, a.body)
		}
	}
	for _, ct := range []string{"text/plain", "application/cbor", "multipart/form-data; boundary=x", "application/xml"} {
		c.refused(400, "invalid", "POST", "/v1/sessions", `{}`, func(r *http.Request) { r.Header.Set("Content-Type", ct) })
	}
}

func TestPathsAndMethods(t *testing.T) {
	c := serve(t)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/nothing", "/v2/leases", "/v1/leases/", "/v1/leases/a/b/c", "/docs", "/schemas/x", "/openapi.yaml"} {
		c.refused(404, "invalid", "GET", path, "")
	}
	a := c.refused(405, "invalid", "PUT", "/v1/leases", `{}`)
	if allow := a.header.Get("Allow"); allow != "POST" {
		t.Errorf("Allow is %q", allow)
	}
	c.refused(405, "invalid", "POST", "/v1/locks", `{}`)
}

func TestForeignHostsAndOrigins(t *testing.T) {
	c := serve(t)
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	for _, h := range []string{"evil.example", "127.0.0.1.evil.example", "10.0.0.1", "10.0.0.1:7421", "[2001:db8::1]:7421", "locks.example.evil"} {
		c.refused(403, "denied", "GET", "/v1/status", "", host(h))
		c.refused(403, "denied", "POST", "/v1/leases", `{"name":"a"}`, host(h))
	}
	for _, h := range []string{"localhost", "LOCALHOST:7421", "127.0.0.1", "127.1.2.3:1", "[::1]:7421", "::1", "locks.example", "Locks.Example.:80"} {
		if a := c.do("GET", "/v1/status", "", host(h)); a.status != 200 {
			t.Errorf("host %q: %v", h, a.body)
		}
	}
	origin := func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }
	site := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	c.refused(403, "denied", "POST", "/v1/leases", `{"name":"a"}`, origin)
	c.refused(403, "denied", "DELETE", "/v1/leases/x", "", site)
}

func TestHostCheckOfOpenListeners(t *testing.T) {
	for _, tc := range []struct {
		address, host string
		want          bool
	}{
		{"0.0.0.0:7421", "10.0.0.1:7421", true},
		{"[::]:7421", "[2001:db8::1]:7421", true},
		{"0.0.0.0:7421", "evil.example", false},
		{"locks.internal:7421", "locks.internal", true},
		{"locks.internal:7421", "10.0.0.1", false},
		{"127.0.0.1:7421", "10.0.0.1", false},
		{"127.0.0.1:7421", "", false},
	} {
		if got := rest.HostCheck(tc.address, nil)(tc.host); got != tc.want {
			t.Errorf("a server on %s answers for host %q: %t", tc.address, tc.host, got)
		}
	}
}

func TestHealth(t *testing.T) {
	c := serve(t)
	for _, path := range []string{"/livez", "/readyz"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", c.s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "pod.example"
		res, err := c.s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

// A body without end must not occupy the server, and the server must not wait forever
// for one that is announced and never sent. This test only shows that a huge body is
// not read to its end.
func TestHugeBodyIsRefusedEarly(t *testing.T) {
	c := serve(t)
	conn, err := net.Dial("tcp", c.s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n")
	go func() {
		_, _ = io.Copy(conn, endless{}) // ends when the server hangs up
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 400 || !res.Close {
		t.Errorf("status %d, connection kept: %t", res.StatusCode, !res.Close)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func TestDescription(t *testing.T) {
	c := serve(t)
	d := c.want(200, "GET", "/openapi.json", "")
	if d.text("openapi") != "3.1.0" {
		t.Errorf("openapi is %q", d.text("openapi"))
	}
	paths := d.body["paths"].(map[string]any)
	for _, p := range []string{
		"/v1/sessions", "/v1/sessions/{session}", "/v1/sessions/{session}/renew", "/v1/leases", "/v1/leases/{lease}",
		"/v1/leases/{lease}/renew", "/v1/locks", "/v1/break", "/v1/status",
	} {
		if paths[p] == nil {
			t.Errorf("%s is not described", p)
		}
	}
	text := mustJSON(d.body)
	for _, odd := range []string{`"422"`, `"500"`, "$schema", "ErrorModel", `"format":"int64"`} {
		if strings.Contains(text, odd) {
			t.Errorf("the description has %s", odd)
		}
	}
	schemas := d.body["components"].(map[string]any)["schemas"].(map[string]any)
	lease := schemas["LeaseBody"].(map[string]any)["properties"].(map[string]any)
	if token := lease["fencing_token"].(map[string]any); token["type"] != "string" {
		t.Errorf("a token is described as %v", token)
	}
	if problem := schemas["Problem"].(map[string]any)["properties"].(map[string]any); problem["reason"] == nil || problem["holder"] == nil {
		t.Errorf("a problem is described as %v", problem)
	}
}

// C80: what is answered goes through a parser of doubles unharmed.
func TestNumbersSurviveDoubles(t *testing.T) {
	c := serve(t)
	l := c.want(200, "POST", "/v1/leases", `{"name":"a"}`)
	for _, a := range []answer{l, c.want(200, "GET", "/v1/locks", ""), c.want(200, "GET", "/v1/status", "")} {
		walk(a.body, func(n float64) {
			if n > 1<<32 {
				t.Errorf("%v holds the number %v", a.body, n)
			}
		})
	}
}

func walk(v any, number func(float64)) {
	switch v := v.(type) {
	case float64:
		number(v)
	case []any:
		for _, e := range v {
			walk(e, number)
		}
	case map[string]any:
		for _, e := range v {
			walk(e, number)
		}
	}
}

// What is read is what encoding/json reads, and it reads nothing more strictly.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"name":"a"}`, `{"names":["a","\ud83d\udd12"],"slots":-3}`, `{"name":1,"name":2}`, `"\ud800"`, `{"name":"\\ud800\n\/"}`, `[[[`, `1 2`,
		"{\"name\":\"\xff\"}", `{"value":"YQ==","ttl":"10s","wait":"1s","lock_delay":"0s","shared":true,"trace":false,"label":"x","session":"y","request_id":"z"}`,
		` { "slots" : 10 , "names" : [ ] } `, `{"slots":01}`, `{"slots":-0}`, `{"slots":1e2}`, `{"name":null}`, `{"slots":+1}`, `{"slots":-}`, `{"shared":truex}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := rest.DecodeStrict(data)
		if err != nil {
			return
		}
		var want rest.Body
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("%q was read, but %v", data, err)
		}
		if !json.Valid(data) || !reflect.DeepEqual(*got, want) {
			t.Fatalf("%q was read as %s, expected %s", data, mustJSON(got), mustJSON(want))
		}
		out := mustJSON(got)
		again, err := rest.DecodeStrict([]byte(out))
		if err != nil || mustJSON(again) != out {
			t.Fatalf("%q, written as %q, became %q: %v", data, out, mustJSON(again), err)
		}
	})
}

// A key that is described is read.
func TestDocumentedKeysAreAccepted(t *testing.T) {
	if read, described := rest.KnownKeys(); !reflect.DeepEqual(read, described) {
		t.Errorf("described are %v, read %v", described, read)
	}
}

// The largest request that is legal fits, however its names are written.
func TestLargestLegalRequest(t *testing.T) {
	escaped := func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			fmt.Fprintf(&b, `\u%04x`, c)
		}
		return b.String()
	}
	names := make([]string, bounds.NamesMax)
	for i := range names {
		names[i] = `"` + escaped(fmt.Sprintf("%0*d", bounds.NameMax, i)) + `"`
	}
	body := `{"names":[` + strings.Join(names, ", ") + `],"value":"` + base64.StdEncoding.EncodeToString(make([]byte, bounds.ValueMax)) +
		`","label":"` + escaped(strings.Repeat("l", bounds.LabelMax)) + `","request_id":"` + escaped(strings.Repeat("r", bounds.RequestIDMax)) +
		`","session":"` + strings.Repeat("f", 32) + `","lock_delay":"59m59.999999999s","wait":"23h59m59.999999999s","trace":false,"shared":true}`
	if len(body) > rest.BodyMax {
		t.Fatalf("%d bytes; %d may be sent", len(body), rest.BodyMax)
	}
	serve(t).refused(404, "gone", "POST", "/v1/leases", body) // there is no such session
}
