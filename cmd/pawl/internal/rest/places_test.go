package rest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/testwait"
)

// begin sends an acquire that waits; cut ends its connection.
func (c *client) begin(body string) (cut func(), granted <-chan string) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", c.s.URL+"/v1/leases", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	status, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := c.s.Client().Do(r); err == nil {
			status <- res.Status
			res.Body.Close()
		}
	}()
	return func() { cancel(); <-ended }, status
}

func (c *client) waiters(name string) int {
	lock, _ := c.lock(name)
	if lock == nil {
		return 0
	}
	return len(lock["waiters"].([]any))
}

// A proxy cuts the connection of a wait. The same request takes its place up
// again, before one that came later.
func TestInterruptedWaitKeepsPlace(t *testing.T) {
	c := serve(t)
	held := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h"}`)
	const first = `{"name":"a","wait":"1h","request_id":"first","label":"first"}`
	cut, _ := c.begin(first)
	testwait.Until(t, bound, "the first waits", func() bool { return c.waiters("a") == 1 })
	cutOther, other := c.begin(`{"name":"a","wait":"1h","request_id":"second"}`)
	testwait.Until(t, bound, "both wait", func() bool { return c.waiters("a") == 2 })
	cut()
	// Of two repeats one takes the place from the other, which is told so: then it
	// stands there, whichever it is.
	cut2, repeat := c.begin(first)
	cut3, again := c.begin(first)
	var status string
	select {
	case status = <-repeat:
		repeat = again
	case status = <-again:
	}
	if status != "503 Service Unavailable" {
		t.Fatalf("a repeat that was repeated: %s", status)
	}
	c.want(200, "DELETE", "/v1/leases/"+held.text("lease"), "")
	select {
	case status := <-repeat:
		if status != "200 OK" {
			t.Errorf("the repeat: %s", status)
		}
	case status := <-other:
		t.Errorf("who came later was granted first: %s", status)
	}
	cut2()
	cut3()
	cutOther()
}
