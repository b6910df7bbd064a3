package link

import (
	"testing"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/locktable"
)

// An answer is noted with the request of its kind, and that request is then done with,
// although a client may give several requests one number.
func TestAnswerIsAuditedWithItsRequest(t *testing.T) {
	w := &auditRecorder{}
	n := newStreamAudit(w, access.NewIdentity("a", access.Limits{}), "")
	acquire, release := tries(1, "x").Requests[0], &linkpb.Request{
		Number: 1, What: &linkpb.Request_Release{Release: &linkpb.Release{Token: 7}},
	}
	n.asked(acquire)
	n.asked(release)
	n.answered(1, locktable.Granted{Token: 8})
	n.answered(1, locktable.Done{Of: locktable.AskedRelease})
	if d, ok := w.find("release", "done"); !ok || d.Token != 7 {
		t.Errorf("noted: %+v", w.deeds)
	}
	n.answered(1, locktable.Refused{Reason: locktable.Held})
	if len(n.open) != 0 || len(w.deeds) != 2 {
		t.Errorf("%v are left without an answer; noted: %+v", n.open, w.deeds)
	}

	for range 3 * sameMax {
		n.asked(acquire)
	}
	if got := len(n.open[1]); got != sameMax {
		t.Errorf("%d requests of one number are remembered, want %d", got, sameMax)
	}
}
