package rest_test

import "testing"

// I8: the answer to an acquire in a session is lost, and the session lives on. The
// session's next request for the name is told that its own session holds it; other
// callers are not. A repeat under the request id finds the lease, which can then be
// released.
func TestLeaseFoundAfterLostAnswer(t *testing.T) {
	c := serve(t)
	in := func(session, id string) string {
		return `{"name":"a","session":` + quote(session) + `,"request_id":` + quote(id) + `}`
	}
	one := c.want(200, "POST", "/v1/sessions", `{"ttl":"1m"}`).text("session")
	other := c.want(200, "POST", "/v1/sessions", `{"ttl":"1m"}`).text("session")

	lost := c.want(200, "POST", "/v1/leases", in(one, "first")).text("fencing_token")
	if a := c.want(409, "POST", "/v1/leases", in(one, "second")); a.body["own_session"] != true || a.body["holder"].(map[string]any)["fencing_token"] != lost {
		t.Errorf("I8: in the session itself: %v", a.body)
	}
	for _, body := range []string{in(other, "first of the other"), `{"name":"a"}`} {
		if a := c.want(409, "POST", "/v1/leases", body); a.body["own_session"] != nil {
			t.Errorf("%s: %v", body, a.body)
		}
	}
	again := c.want(200, "POST", "/v1/leases", in(one, "first"))
	if again.text("fencing_token") != lost {
		t.Errorf("I8: the repeat of %s got %v", lost, again.body)
	}
	c.want(200, "DELETE", "/v1/leases/"+again.text("lease"), "")
	c.want(200, "POST", "/v1/leases", in(one, "second"))
}
