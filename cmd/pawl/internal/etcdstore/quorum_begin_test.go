package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

// eager is a clock whose timers fire at once, as if their time had passed.
type eager struct {
	clock.Clock
	mu     sync.Mutex
	passed time.Duration
	pauses []time.Duration
}

func (e *eager) Now() clock.Reading {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Clock.Now().Add(e.passed)
}

func (e *eager) NewTimer() clock.Timer { return &eagerTimer{e, make(chan struct{}, 1)} }

// longest are the pauses above the usual one, in order.
func (e *eager) longest() []time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.pauses), func(d time.Duration) bool { return d <= beginPace })
}

type eagerTimer struct {
	of *eager
	c  chan struct{}
}

func (t *eagerTimer) C() <-chan struct{} { return t.c }
func (t *eagerTimer) Stop()              {}

func (t *eagerTimer) Reset(d time.Duration) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.passed += d
	t.of.pauses = append(t.of.pauses, d)
	select {
	case t.c <- struct{}{}:
	default:
	}
}

// beginning is the server n2 before it has decided anything, with one peer, n1, that
// answers as told.
func beginning(t *testing.T, answers http.HandlerFunc) (*Quorum, *eager) {
	t.Helper()
	n1 := httptest.NewServer(answers)
	t.Cleanup(n1.Close)
	clk := &eager{Clock: clock.System()}
	o := QuorumOptions{
		EmbeddedOptions: EmbeddedOptions{
			Dir: t.TempDir(), ActiveTTL: idle, Clock: clk, Stderr: io.Discard,
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		}.withDefaults(),
		Node:  "n2",
		Peers: []Peer{{"n1", n1.URL}, {"n2", "http://127.0.0.1:1"}},
	}
	q := &Quorum{Embedded: newEmbedded(o.EmbeddedOptions), opts: o, lead: lead{clock: clk, term: newTerm()}}
	var err error
	if q.folder, err = openFolder(t.Context(), o.Dir, 0, clk); err != nil {
		t.Fatal(err)
	}
	if q.peers, err = newPeering(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q, clk
}

func says(w http.ResponseWriter, what any) { _ = json.NewEncoder(w).Encode(what) }

// A peer that is silent while a server starts, and knows that its folder is old, is
// asked again before the member takes part.
func TestSilentPeerIsAskedAgain(t *testing.T) {
	asked := 0
	q, clk := beginning(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		says(w, about{Name: "n1", State: founding.Member, First: "n1", Cluster: 7, ID: 1, Acknowledged: 101})
	})
	end := folderEnd{cluster: 7, id: 2, last: 100, members: []memberShown{
		{ID: 1, Name: "n1", URL: q.opts.Peers[0].URL}, {ID: 2, Name: "n2", URL: q.opts.Peers[1].URL},
	}}
	err := q.take(t.Context(), true, end)
	if !errors.Is(err, store.ErrRolledBack) || !strings.Contains(err.Error(), "entry 101") {
		t.Errorf("an old folder, whose peer was silent for a moment: %v", err)
	}
	if p := clk.longest(); len(p) != 1 || p[0] < idle-time.Minute {
		t.Errorf("it rested for %v, expected about %v", p, idle)
	}
}

// A joiner whose etcd does not start takes a place among the members at each try. Its
// tries become few.
func TestJoinerThatCannotStartBacksOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var q *Quorum
	joins := 0
	q, clk := beginning(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case pathMember:
			says(w, about{Name: "n1", State: founding.Member, First: "n1", Cluster: 7, ID: 1, Members: []memberShown{
				{ID: 1, Name: "n1", URL: q.opts.Peers[0].URL}, {ID: 9, URL: q.opts.Peers[1].URL},
			}})
		case pathJoin:
			if joins++; joins == 4 {
				cancel()
			}
			says(w, joined{ID: 9})
		default: // etcd's own, without which it does not start
			http.Error(w, "not now", http.StatusServiceUnavailable)
		}
	})
	if err := q.take(ctx, false, folderEnd{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a member that cannot start: %v", err)
	}
	if p, expected := clk.longest(), []time.Duration{2 * beginPace, 4 * beginPace, 8 * beginPace}; !slices.Equal(p, expected) {
		t.Errorf("pauses between joins: %v, expected %v", p, expected)
	}
}

func TestMissingMembersAreNamed(t *testing.T) {
	no := answer{err: errNotNow}
	is := func(id uint64) answer { return answer{about: about{State: founding.Member, ID: id}} }
	empty := answer{about: about{State: founding.Empty}}
	members := []memberShown{{ID: 1, Name: "n1"}, {ID: 2, Name: "n2"}, {ID: 3, Name: "n3"}, {ID: 4, Name: "n4", Learner: true}}
	const needed = "a majority of the members: 2 of 3 are needed"
	for _, c := range []struct {
		answers map[Peer]answer
		said    string
	}{
		{nil, needed + ", and no answer comes from n2, n3"},
		{map[Peer]answer{{Name: "n2"}: is(2), {Name: "n3"}: no}, ""},
		{map[Peer]answer{{Name: "n3"}: no, {Name: "n2"}: no, {Name: "n4"}: is(4)}, needed + ", and no answer comes from n2, n3"},
		{map[Peer]answer{{Name: "n2"}: empty, {Name: "n3"}: no}, needed + ", and no answer comes from n3, and an empty folder has n2"},
		{map[Peer]answer{{Name: "n2"}: empty, {Name: "n3"}: empty}, needed + ", and an empty folder has n2, n3"},
	} {
		if said := missingOf(members, 1, c.answers); said != c.said {
			t.Errorf("%q, expected %q", said, c.said)
		}
	}
}
