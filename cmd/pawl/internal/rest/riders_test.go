package rest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A listing says of what grade a lease is, and for how long it rides.
func TestGrades(t *testing.T) {
	c := serve(t)
	for more, want := range map[string]string{
		``:                                 "advisory",
		`,"lock_delay":"1s"`:               "delayed",
		`,"claims":true`:                   "claimed",
		`,"claims":true,"lock_delay":"1s"`: "claimed",
		`,"claims":true,"ride_through":"1h30m0s"`: "claimed",
		`,"claims":false`:                         "advisory",
	} {
		l := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h"`+more+`}`)
		lock, _ := c.lock("a")
		h := holders(lock)[0]
		if h["grade"] != want {
			t.Errorf("%s: the grade is %v", more, h["grade"])
		}
		ride, there := h["ride_through"]
		if there != strings.Contains(more, "ride") || there && ride != "1h30m0s" {
			t.Errorf("%s: it rides %v", more, ride)
		}
		no := c.refused(409, "held", "POST", "/v1/leases", `{"name":"a"}`)
		if h := no.body["holder"].(map[string]any); h["grade"] != want {
			t.Errorf("%s: a refusal names the holder %v", more, h)
		}
		c.want(200, "DELETE", "/v1/leases/"+l.text("lease"), "")
		if lock, there := c.lock("a"); there {
			t.Errorf("%s: after its release there is %v", more, lock)
		}
	}
}

// A rider that is broken by force leaves its name to those that claim.
func TestBrokenRiderLeavesNameClaimOnly(t *testing.T) {
	c := serve(t)
	l := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h","claims":true,"ride_through":"1h","request_id":"x"}`)
	if again := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h","claims":true,"ride_through":"1h","request_id":"x"}`); again.text("lease") != l.text("lease") {
		t.Errorf("the repeat got %v", again.body)
	}
	c.refused(409, "conflict", "POST", "/v1/leases", `{"name":"a","ttl":"1h","claims":true,"request_id":"x"}`)
	if lock, _ := c.lock("a"); lock["claim_only_for"] != "0s" {
		t.Errorf("while it is held the name is %v", lock)
	}
	broke := func(now string) answer {
		t.Helper()
		return c.want(200, "POST", "/v1/break", `{"name":"a","fencing_token":`+quote(l.text("fencing_token"))+`,"reason":"r"`+now+`}`)
	}
	if a := broke(""); a.body["ended"] != false || a.body["rides_on"] != nil {
		t.Errorf("a polite break answers %v", a.body)
	}
	if a := broke(`,"now":true`); a.body["ended"] != true || a.body["rides_on"] != "1h0m0s" {
		t.Errorf("a break by force answers %v", a.body)
	}
	lock, _ := c.lock("a")
	left, err := time.ParseDuration(fmt.Sprint(lock["claim_only_for"]))
	if err != nil || left <= 59*time.Minute || left > time.Hour || lock["closed_for"] != "0s" || len(holders(lock)) != 0 {
		t.Errorf("after the break the name is %v (%v)", lock, err)
	}
	for _, mode := range []string{``, `,"shared":true`, `,"lock_delay":"1s"`, `,"wait":"1ms"`} {
		no := c.refused(409, "held", "POST", "/v1/leases", `{"name":"a"`+mode+`}`)
		if d := no.text("detail"); !strings.Contains(d, "acquires that do not claim") || !strings.Contains(d, "claim a guard") || no.body["holder"] != nil {
			t.Errorf("%s: refused with %v", mode, no.body)
		}
	}
	// A claim of a slot would not stop the rider of a lock.
	c.refused(409, "conflict", "POST", "/v1/leases", `{"name":"a","slots":2,"claims":true}`)
	c.want(200, "POST", "/v1/leases", `{"name":"a","claims":true,"shared":true}`)
	if no := c.refused(409, "held", "POST", "/v1/leases", `{"name":"a","shared":true}`); no.body["holder"] == nil || !strings.Contains(no.text("detail"), "do not claim") {
		t.Errorf("beside a reader that claims: refused with %v", no.body)
	}
}
