package rest_test

import (
	"net/http"
	"testing"
)

// A renewal may ask for another TTL; what it answers is what it is good for.
func TestRenewalWithATTL(t *testing.T) {
	c := serve(t)
	session := c.want(200, "POST", "/v1/sessions", `{"ttl":"10s"}`).text("session")
	l := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"10s"}`)
	lease, own := "/v1/leases/"+l.text("lease")+"/renew", "/v1/sessions/"+l.text("session")+"/renew"
	for _, step := range []struct{ path, body, ttl string }{
		{"/v1/sessions/" + session + "/renew", `{"ttl":"1m"}`, "1m0s"},
		{"/v1/sessions/" + session + "/renew", ``, "1m0s"},
		{"/v1/sessions/" + session + "/renew", `{"ttl":"2s"}`, "2s"},
		// What was asked for last, although the log does not have it yet.
		{"/v1/sessions/" + session + "/renew", `{}`, "2s"},
		{lease, `{"ttl":"24h"}`, "24h0m0s"},
		{lease, "  \n", "24h0m0s"},
		// The session of the lease is the lease's own.
		{own, ``, "24h0m0s"},
		{own, `{"ttl":"1s"}`, "1s"},
		{lease, ``, "1s"},
	} {
		a := c.want(200, "POST", step.path, step.body)
		if a.text("ttl") != step.ttl || len(a.body) != 2 {
			t.Errorf("%s %s answers %v, not %s", step.path, step.body, a.body, step.ttl)
		}
	}
	for _, body := range []string{
		`{"ttl":"999ms"}`, `{"ttl":"0s"}`, `{"ttl":"-1s"}`, `{"ttl":"24h0m1s"}`, `{"ttl":10}`, `{"ttl":null}`, `{"TTL":"10s"}`,
		`{"ttl":"10s","ttl":"10s"}`, `{"label":"x"}`, `[]`, `{`, `"10s"`,
	} {
		c.refused(400, "invalid", "POST", lease, body)
		c.refused(400, "invalid", "POST", own, body)
	}
	for _, ct := range []string{"", "application/json", "application/x-www-form-urlencoded"} {
		a := c.do("POST", lease, `{"ttl":"10s"}`, func(r *http.Request) { r.Header.Set("Content-Type", ct) })
		if a.status != 200 || a.text("ttl") != "10s" {
			t.Errorf("content type %q: %v", ct, a.body)
		}
	}
	if a := c.do("POST", lease, `{"ttl":"10s"}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }); a.status != 400 {
		t.Errorf("a body of text: %v", a.body)
	}
	// Without a body its type does not matter.
	if a := c.do("POST", lease, ``, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }); a.status != 200 {
		t.Errorf("no body: %v", a.body)
	}
	c.refused(404, "gone", "POST", "/v1/leases/x/renew", `{"ttl":"10s"}`)
}
