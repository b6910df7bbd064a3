package rest_test

import (
	"strings"
	"testing"
)

// What is wrong with a request is said of the field, with what was expected.
func TestComplaints(t *testing.T) {
	c := serve(t)
	for _, tc := range []struct{ path, body, says string }{
		{"/v1/break", `{"name":"a"}`, `"fencing_token" is missing; "reason" is missing`},
		{"/v1/break", `{"name":"a","fencing_token":1,"reason":"x"}`, `body.fencing_token: "1867776000000001" (a number as text) was expected`},
		{"/v1/break", `{"name":"a","fencing_token":"x","reason":"x"}`, `body.fencing_token: "x" is not a fencing token`},
		{"/v1/break", `{"name":"a","fencing_token":"1","reason":""}`, `"reason" is empty`},
		{"/v1/break", `{"name":"a","fencing_token":"1","reason":"x","now":"yes"}`, `body.now: true or false, without quotes was expected`},
		{"/v1/leases", `{"name":"a","ttl":10}`, `body.ttl: "10s" (a duration as text) was expected`},
		{"/v1/leases", `{"name":"a","ttl":"10"}`, `body.ttl: "10" is not a duration; expected a number and a unit, such as "10s"`},
		{"/v1/leases", `{"name":"a","ttl":"10s","wait":"x"}`, `body.wait: "x" is not a duration`},
		{"/v1/leases", `{"name":1}`, `body.name: a text in quotes was expected`},
		{"/v1/leases", `{"name":"a","nmae":"b"}`, `"nmae" is not known`},
		{"/v1/leases", `{"name":"a","ttl":"10s","slots":1e400}`, `body.slots: the number is out of range`},
		{"/v1/leases", `{"name":"a","ttl":"10s","slots":-1e400}`, `body.slots: the number is out of range`},
		{"/v1/leases", `{"name":"a","ttl":"10s","slots":99999999999999999999}`, `body.slots: the number is out of range`},
		{"/v1/leases", `{"name":["a"],"ttl":{}}`, `body.name: a text in quotes was expected`},
		{"/v1/leases", `[]`, `body: an object in braces was expected`},
		{"/v1/leases", `name=a`, `the body is not JSON; an object was expected`},
	} {
		a := c.refused(400, "invalid", "POST", tc.path, tc.body)
		if got := a.text("detail"); !strings.Contains(got, tc.says) || strings.HasPrefix(got, "body: the") || strings.Contains(got, "property") ||
			strings.Contains(got, "Go ") || strings.Contains(got, "json:") {
			t.Errorf("%s: %q, expected %q", tc.body, got, tc.says)
		}
	}
	a := c.refused(400, "invalid", "GET", "/v1/locks?nmae=a", "")
	if got := a.text("detail"); !strings.Contains(got, `the query parameter "nmae" is not known`) {
		t.Errorf("%q", got)
	}
}

// An id that is missing in a path is no request to go elsewhere.
func TestEmptyPathSegmentsAreNotRedirected(t *testing.T) {
	c := serve(t)
	for _, path := range []string{"/v1/leases//renew", "/v1/sessions//renew", "//v1/leases", "/v1/leases/../sessions"} {
		a := c.refused(404, "invalid", "POST", path, "{}")
		if a.header.Get("Location") != "" {
			t.Errorf("%s leads to %s", path, a.header.Get("Location"))
		}
	}
}
