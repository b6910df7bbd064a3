package rest_test

import (
	"testing"
	"time"
)

// Who asks for a trace is told the rooms of the server, in order, and nobody else
// is told of any.
func TestTraceOverHTTP(t *testing.T) {
	c := serve(t)
	if a := c.want(200, "POST", "/v1/leases", `{"name":"a"}`); a.body["trace"] != nil {
		t.Errorf("nobody asked, and told was %v", a.body["trace"])
	}
	if a := c.want(200, "POST", "/v1/leases", `{"name":"b","trace":false}`); a.body["trace"] != nil {
		t.Errorf("told was %v", a.body["trace"])
	}
	a := c.want(200, "POST", "/v1/leases", `{"name":"c","trace":true}`)
	rooms, _ := a.body["trace"].([]any)
	expect := []string{"rest receive", "intake queue", "locktable decide", "batch close", "store begin", "store append", "cell settle", "rest answer"}
	if len(rooms) != len(expect) {
		t.Fatalf("told were %v", a.body["trace"])
	}
	var all time.Duration
	for i, r := range rooms {
		room, _ := r.(map[string]any)
		if got, _ := room["room"].(string); got+" "+room["step"].(string) != expect[i] {
			t.Errorf("room %d is %v; expected %s", i, room, expect[i])
		}
		took, err := time.ParseDuration(room["took"].(string))
		if err != nil || took < 0 {
			t.Errorf("room %d is %v", i, room)
		}
		all += took
	}
	if all <= 0 {
		t.Errorf("it took no time at all: %v", rooms)
	}
	if c.refused(409, "held", "POST", "/v1/leases", `{"name":"c","trace":true}`).body["trace"] != nil {
		t.Error("a refusal has a trace")
	}
	c.refused(400, "invalid", "POST", "/v1/leases", `{"name":"d","trace":"yes"}`)
}
