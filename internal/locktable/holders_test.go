package locktable

import (
	"slices"
	"testing"

	"github.com/pawlproject/pawl/guard"
)

// The first of many readers is never one that has gone: its fence is the next reader's,
// and by it a name is held.
func TestFirstReaderIsNeverAnEndedLease(t *testing.T) {
	all := make([]*lease, goneMin+1)
	l := &lock{contention: uncontended}
	for i := range all {
		all[i] = &lease{token: guard.Token(i + 1), mode: Shared}
		l.holders = append(l.holders, all[i])
	}
	for _, i := range []int{1, 2, 4, 0} {
		l.removeHolder(all[i])
	}
	if l.holders[0] != all[3] {
		t.Errorf("the first reader has token %d, want %d", l.holders[0].token, all[3].token)
	}
	want := append([]*lease{all[3]}, all[5:]...)
	if got := slices.Collect(l.live()); !slices.Equal(got, want) {
		t.Errorf("%d readers are left, want %d", len(got), len(want))
	}
}
