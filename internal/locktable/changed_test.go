package locktable

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
)

// A decision returns the names whose listing changed, and for a session's end
// when that was.
func TestDecisionsReturnChangedNames(t *testing.T) {
	s := newShop(bounds.DefaultLimits)
	session, other := s.attach("a"), s.attach("a")
	number := uint64(0)
	changed := func(what string, c Command, names ...string) Answer {
		t.Helper()
		a := s.decide(c)
		if got := slices.Compact(slices.Sorted(slices.Values(s.d.Changed))); !slices.Equal(got, names) || s.d.Unnamed {
			t.Errorf("%s changed %q, expected %q; unnamed: %v", what, got, names, s.d.Unnamed)
		}
		return a
	}
	acquire := func(of ID, delay time.Duration, names ...string) guard.Token {
		t.Helper()
		number++
		g, granted := changed("a grant", Acquire{
			Ref: of, Session: of, Generation: 1, Number: number, Identity: "a", Names: names, LockDelay: delay,
		}, names...).(Granted)
		if !granted {
			t.Fatalf("%q: not granted", names)
		}
		return g.Token
	}
	one, two := acquire(session, 0, "n1", "n2"), acquire(other, time.Hour, "n3")
	number++
	changed("waiting", Acquire{Ref: other, Session: other, Generation: 1, Number: number, Identity: "a", Names: []string{"n1"}})
	changed("a renewal", Heard{Ref: session, Session: session, Generation: 1, Renewal: 1})
	changed("a break", Break{Ref: session, Name: "n3", Token: two}, "n3")
	changed("a break at once", Break{Ref: session, Name: "n3", Token: two, Now: true}, "n3")
	number++
	changed("a release", Release{Ref: session, Session: session, Generation: 1, Number: number, Token: one}, "n1", "n2")
	number++
	rider := changed("a grant of a rider", Acquire{
		Ref: other, Session: other, Generation: 1, Number: number, Identity: "a", Names: []string{"r"}, Claims: true, RideThrough: time.Second,
	}, "r").(Granted)
	changed("a break of a rider", Break{Ref: session, Name: "r", Token: rider.Token, Now: true}, "r")
	for range 2 {
		// The first gives the closure its time.
		s.now.Low, s.now.High = s.now.Low+time.Second, s.now.High+time.Second
		s.d = Decided{}
		s.table.Tick(s.now, true, 10, &s.d)
	}
	if !slices.Equal(s.d.Changed, []string{"r"}) || s.d.Events[0].Kind != recordpb.Kind_KIND_NAME_CLAIM_ONLY_OVER {
		t.Errorf("the end of a claim-only time changed %q by %v", s.d.Changed, s.d.Events)
	}
	changed("a listing", List{Ref: session})
	changed("an end", Close{Session: other, Identity: "a"}, "n1")
	ended := s.d.Events[0]
	if ended.Kind != recordpb.Kind_KIND_SESSION_CLOSED || ended.AtUnixNano != s.now.Wall.UnixNano() {
		t.Errorf("the end is told by %v", ended)
	}
	for i := range changedMax + 1 {
		acquire(session, 0, fmt.Sprint("many", i))
	}
	s.decide(Close{Session: session, Identity: "a"})
	if !s.d.Unnamed {
		t.Error("more names were changed than are told, and that is not told")
	}
}

// What is changed may be asked for by name, and by what a listing would show.
func TestChangedNames(t *testing.T) {
	var c Changed
	if c.Has("") || c.Touches(List{}) {
		t.Error("nothing is changed, and is found")
	}
	c.Add([]string{"b/2", "a/1", "b/2", "b/4"}, false)
	for name, has := range map[string]bool{"a/1": true, "b/2": true, "b/4": true, "a": false, "a/": false, "b/3": false, "z": false, "": false} {
		if c.Has(name) != has {
			t.Errorf("%q is among them: %v", name, !has)
		}
	}
	for _, q := range []struct {
		list    List
		touched bool
	}{
		{List{}, true},
		{List{Name: "b/2"}, true},
		{List{Name: "b/3"}, false},
		{List{Prefix: "a"}, true},
		{List{Prefix: "a/1"}, true},
		{List{Prefix: "a/2"}, false},
		{List{Prefix: "c"}, false},
		{List{Prefix: "b/", After: "b/3"}, true},
		{List{Prefix: "b/", After: "b/4"}, false},
		{List{After: "b/4"}, false},
		{List{Within: []string{"a/", "c/"}}, true},
		{List{Within: []string{"c/"}}, false},
		{List{Within: []string{}}, false},
		{List{Prefix: "b/", Within: []string{"b/3", "b/4"}}, true},
		{List{Prefix: "b/3", Within: []string{"b/"}}, false},
	} {
		if c.Touches(q.list) != q.touched {
			t.Errorf("%+v is touched: %v", q.list, !q.touched)
		}
	}
	c.Add(nil, true)
	if !c.Has("z") || !c.Touches(List{Name: "z"}) || !c.Touches(List{Prefix: "c"}) {
		t.Error("any name may be changed, and it is said that one is not")
	}
}
