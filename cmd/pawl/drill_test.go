package main

import (
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
)

// A drill is for one who is admin of all names, over the link and over HTTP, and is
// audited.
func TestDrillNeedsAdmin(t *testing.T) {
	f := newFortress(t)
	for _, who := range []string{"a", "eye"} {
		contains(t, f.must(exit.CodeDenied, who, "drill", "outage", "--for", "1s").stderr, "may not admin")
		code, _, body := f.ask(who, "POST", "/v1/drill", `{"for":"1s"}`)
		if code != 403 || !strings.Contains(body, "denied") {
			t.Errorf("%s: %d %s", who, code, body)
		}
	}
	for _, body := range []string{`{}`, `{"for":"0s"}`, `{"for":"61m"}`, `{"for":60}`, `{"for":"1s","x":1}`} {
		if code, _, said := f.ask("root", "POST", "/v1/drill", body); code != 400 {
			t.Errorf("%s: %d %s", body, code, said)
		}
	}
	r := f.must(0, "root", "drill", "outage", "--for", "10ms")
	contains(t, r.stdout, "outage  ", "sessions  0 were open", "lost      0 did not return")
	contains(t, r.stderr, "answers as one that lost its quorum for 10ms")
	code, _, body := f.ask("root", "POST", "/v1/drill", `{"for":"20ms"}`)
	if code != 200 || !strings.Contains(body, `"sessions":0`) || !strings.Contains(body, `"lost":[]`) {
		t.Errorf("%d %s", code, body)
	}
	f.audited(`"identity":"a"`, `"verb":"drill"`, `"reason":"outage for 10ms"`, `"outcome":"begun"`)
}
