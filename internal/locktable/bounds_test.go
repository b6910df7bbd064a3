package locktable

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
)

// fresh returns a cell's table in its first tenure, and a time in it.
func fresh(t *testing.T) (*Table, Now) {
	t.Helper()
	table, opened := New(bounds.DefaultLimits), time.Unix(1_800_000_000, 0)
	var d Decided
	table.Found("c", make([]byte, 32), &d)
	table.Open(1, opened, 0, &d)
	return table, Now{Wall: opened.Add(time.Hour)}
}

func idNumber(n int) ID { return ID{byte(n), byte(n >> 8), byte(n >> 16), 1} }

// A name with more holders than one listing shows, and more of them on a page
// than a page bears.
func TestListingIsBounded(t *testing.T) {
	table, now := fresh(t)
	var d Decided
	own := 0
	for _, name := range []string{"a", "b", "c"} {
		for range holdersShown + 1 {
			own++
			table.Decide(now, Acquire{Ref: own, Names: []string{name}, Mode: Shared, Own: idNumber(own), TTL: bounds.TTLMin}, &d)
		}
	}
	for range waitersShown + 1 {
		own++
		table.Decide(now, Acquire{Ref: own, Names: []string{"c"}, Own: idNumber(own), TTL: bounds.TTLMin}, &d)
	}
	page := func(l List) Page {
		d = Decided{}
		l.Ref = "list"
		table.Decide(now, l, &d)
		p, ok := d.Replies[0].Answer.(Page)
		if !ok {
			t.Fatalf("listed: %+v", d.Replies[0].Answer)
		}
		return p
	}
	p := page(List{})
	if len(p.Locks) != pageShown/holdersShown || p.Next != "b" {
		t.Errorf("%d names are on the first page, which goes on after %q", len(p.Locks), p.Next)
	}
	p = page(List{After: p.Next})
	if len(p.Locks) != 1 || p.Next != "" {
		t.Fatalf("%d names are on the last page, which goes on after %q", len(p.Locks), p.Next)
	}
	if n, m := len(p.Locks[0].Holders), len(p.Locks[0].Waiters); n != holdersShown || m != waitersShown {
		t.Errorf("%d holders and %d waiters of one name are shown", n, m)
	}
	if p = page(List{Name: "c", WithoutQueue: true}); len(p.Locks[0].Waiters) != 0 {
		t.Errorf("%d waiters are shown to whom did not ask for them", len(p.Locks[0].Waiters))
	}
}

// The finished requests of a session are written down in portions, and none is
// left out.
func TestFinishedRequestsInPortions(t *testing.T) {
	for _, n := range []int{0, 1, doneMax, doneMax + 1, 2*doneMax + 5} {
		s := frozenSession{session: session{id: ID{1}, ttl: bounds.TTLMin, finished: 7}}
		for i := range n {
			s.done = append(s.done, 7+2*uint64(i))
		}
		table := New(bounds.DefaultLimits)
		for _, e := range s.events() {
			if len(e.Done) > doneMax {
				t.Errorf("one of %d requests: %d in one event", n, len(e.Done))
			}
			if err := table.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if got := table.sessions[ID{1}]; len(got.done) != n || got.finished != 7 {
			t.Errorf("of %d requests %d are finished, and all below %d", n, len(got.done), got.finished)
		}
	}
}

// A table that has forgotten tenures cannot tell whose a token from before the
// ones that it knows is; one that has not can.
func TestForgottenTenuresHideTokenOrigin(t *testing.T) {
	table, now := fresh(t)
	var d Decided
	told := func(token guard.Token) bool {
		rolled, err := table.reportToken(now, "c", token, &d)
		if err != nil {
			t.Fatal(err)
		}
		return rolled
	}
	first := table.tenures[0].opened
	if !told(first - 1) {
		t.Error("a token from before the first tenure is taken for one of its own")
	}
	for epoch := uint64(2); epoch <= TenuresKept+10; epoch++ {
		table.Open(epoch, time.Unix(1_800_000_000, 0), 0, &d)
	}
	if n := len(table.tenures); n != TenuresKept {
		t.Fatalf("%d tenures are kept", n)
	}
	if told(first - 1) {
		t.Error("a token from before the tenures that are known is taken for one of a lost log")
	}
	if !told(table.tenures[1].opened) {
		t.Error("a token that no tenure granted is taken for one of its own")
	}
}

// An event of a kind that only a newer version knows stops a replay, and says so.
func TestUnknownEvent(t *testing.T) {
	table, _ := fresh(t)
	err := table.Apply(&recordpb.Event{Kind: 99})
	if !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("an unknown event: %v", err)
	}
}
