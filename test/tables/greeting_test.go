package tables

import (
	"cmp"
	"slices"

	"pgregory.net/rapid"

	"github.com/pawlproject/pawl/internal/locktable"
)

// lateGreeting brings a greeting of before a take-over, which the session has
// overtaken: it has a lease that was asked for later. It changes nothing.
func (h *history) lateGreeting(t *rapid.T) {
	var late []*mLease
	for _, l := range h.m.leases {
		if !l.over && l.number != 0 {
			late = append(late, l)
		}
	}
	if len(late) == 0 {
		t.Skip("no lease that was asked for on a stream")
	}
	slices.SortFunc(late, func(a, b *mLease) int { return cmp.Compare(a.token, b.token) })
	l := rapid.SampledFrom(late).Draw(t, "lease")
	c := locktable.Attach{
		Ref: "late", Session: h.id(l.session), Generation: h.m.sessions[l.session].generation + 1,
		Next: rapid.Uint64Range(1, l.number).Draw(t, "next"), Cell: h.table.Cell(),
	}
	d := h.do(t, c, nil)
	if len(d.Events) != 0 || len(d.Replies) != 1 {
		t.Fatalf("a late greeting led to %d events and %d answers", len(d.Events), len(d.Replies))
	}
	if a, ok := d.Replies[0].Answer.(locktable.Closed); !ok || a.Reason != locktable.Conflict {
		t.Fatalf("a late greeting was answered with %#v", d.Replies[0].Answer)
	}
}
