package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/storetest"
	"github.com/pawlproject/pawl/internal/testwait"
)

// foundQuorum founds a quorum of n members in this process.
func foundQuorum(t *testing.T, n int, change ...func(*QuorumOptions)) []*Quorum {
	t.Helper()
	var peers []Peer
	var all []*Quorum
	var each []QuorumOptions
	for i := range n {
		o := memberOptions(t, fmt.Sprintf("n%d", i+1))
		for _, c := range change {
			c(&o)
		}
		peers = append(peers, o.Peers...)
		each = append(each, o)
	}
	for _, o := range each {
		o.Peers = peers
		all = append(all, openMember(t, o))
	}
	for _, q := range all {
		hasPlace(t, q)
		if m := q.etcd.Server.Cluster().Member(q.etcd.Server.MemberID()); m == nil || m.IsLearner {
			t.Errorf("%s has its place, and no vote: %v", q.opts.Node, m)
		}
	}
	return all
}

// memberOptions are those of a member that knows only itself.
func memberOptions(t *testing.T, name string) QuorumOptions {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // closed before, where a member was opened
	return QuorumOptions{
		EmbeddedOptions: EmbeddedOptions{
			Dir: t.TempDir(), ActiveTTL: idle, Clock: clock.System(), Stderr: io.Discard,
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		},
		Node: name, Peers: []Peer{{name, "http://" + l.Addr().String()}}, Listener: l,
	}
}

func openMember(t *testing.T, o QuorumOptions) *Quorum {
	t.Helper()
	q, err := OpenQuorum(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close %s: %v", o.Node, err)
		}
	})
	return q
}

func hasPlace(t *testing.T, q *Quorum) {
	t.Helper()
	testwait.Until(t, bound, "the member has its place", func() bool {
		if err := q.Err(); err != nil {
			t.Fatal(err)
		}
		return q.begun.Load()
	})
}

// again are a member's options with a listener of its own: at the same address, or at
// another one.
func again(t *testing.T, o QuorumOptions, address string) QuorumOptions {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // closed before, where a member was opened
	o.Listener = l
	return o
}

// TestQuorumContract runs the contract of a store on three members, each place below a
// prefix of its own and by another member.
func TestQuorumContract(t *testing.T) {
	all := foundQuorum(t, 3)
	places := 0
	storetest.Run(t, func(t *testing.T) *storetest.Place {
		q := all[places%len(all)]
		places++
		p := storetest.OnKVBelow(place{q}, clock.System(), fmt.Sprintf("place-%d/", places))
		p.Seeds = uint64(testwait.Reps(5))
		p.SetFull = func(full bool) {
			action := pb.AlarmRequest_DEACTIVATE
			if full {
				action = pb.AlarmRequest_ACTIVATE
			}
			req := &pb.AlarmRequest{MemberID: uint64(q.etcd.Server.MemberID()), Action: action, Alarm: pb.AlarmType_NOSPACE}
			if _, err := q.etcd.Server.Alarm(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		return p
	})
}

func TestQuorumNeedsMember(t *testing.T) {
	voter := func(name string, up bool, applied uint64) MemberStatus {
		return MemberStatus{Name: name, ID: 1, Answers: up, Applied: applied}
	}
	three := []MemberStatus{voter("a", true, 9000), voter("b", true, 9000), voter("c", true, 9000)}
	down := []MemberStatus{voter("a", true, 9000), voter("b", true, 9000), voter("c", false, 0)}
	behind := []MemberStatus{voter("a", true, 9000), voter("b", true, 9000), voter("c", true, 100)}
	for _, c := range []struct {
		what   string
		all    []MemberStatus
		name   string
		needed string
	}{
		{"all are up", three, "b", ""},
		{"the one that is down", down, "c", ""},
		{"another than the one that is down", down, "b", "the quorum needs b: without it a, c are left, of which 2 must be up and caught up, and 1 are"},
		{"another than the one that is behind", behind, "a", "the quorum needs a"},
		{"the one that is behind", behind, "c", ""},
		{"the only one", three[:1], "a", "a is the only member"},
		{"a learner", append([]MemberStatus{{Name: "d", ID: 2, Learner: true}}, down...), "d", ""},
		{"one that has not joined", append([]MemberStatus{{Name: "d"}}, down...), "d", ""},
		{"a learner does not count", append([]MemberStatus{{Name: "d", ID: 2, Learner: true, Answers: true, Applied: 9000}}, down...), "a", "the quorum needs a"},
	} {
		err := mayRemove(c.all, c.name)
		if (err == nil) != (c.needed == "") || err != nil && !strings.Contains(err.Error(), c.needed) {
			t.Errorf("%s: %v, expected %q", c.what, err, c.needed)
		}
	}
}

// A joiner has its place when it has its vote.
func TestQuorumJoinersHaveVotes(t *testing.T) {
	foundQuorum(t, 3)
}

// A member that is new in a folder, the founder as well as those that join, forgets what
// another one had seen there, of a cluster that is gone.
func TestNewMemberForgetsWhatWasSeen(t *testing.T) {
	all := foundQuorum(t, 3, func(o *QuorumOptions) {
		f := &folder{dir: o.Dir}
		if err := f.writeSeen(kvlog.Seen{Cluster: 0xdead, Rev: 1 << 40}); err != nil {
			t.Fatal(err)
		}
	})
	for _, q := range all {
		if err := q.folder.checkSeen(kvlog.Seen{Cluster: uint64(q.etcd.Server.Cluster().ID()), Rev: 1 << 40}); err != nil {
			t.Errorf("%s has its place, and its folder is of another cluster: %v", q.opts.Node, err)
		}
	}
}

// A request to be let in that was delayed, and arrives when its sender has its place, or
// that somebody repeats, takes that place from nobody.
func TestLateJoinTakesNobodysPlace(t *testing.T) {
	all := foundQuorum(t, 3)
	before := membersOf(all[0].etcd)
	for _, of := range all[1:] {
		own := of.peers.own()
		for _, by := range all {
			var j joined
			err := by.peers.call(t.Context(), http.MethodPost, by.peers.own().URL+pathJoin, joining{Name: own.Name, URL: own.URL, Visit: of.peers.visit}, &j)
			if refused := (*refusedError)(nil); !errors.As(err, &refused) || refused.code != http.StatusServiceUnavailable || !strings.Contains(refused.text, "does not ask to join any more") {
				t.Fatalf("%s asks %s again: %v", own.Name, by.opts.Node, err)
			}
		}
	}
	if after := membersOf(all[0].etcd); !reflect.DeepEqual(before, after) {
		t.Errorf("the members were %v, and are %v", before, after)
	}
	for _, q := range all {
		if err := q.Err(); err != nil {
			t.Errorf("%s has lost its place: %v", q.opts.Node, err)
		}
	}
}

// A member that goes on in its folder takes part a whole active-ttl after its server's
// start: what its disk may have lost has no effect by then.
func TestMemberRestsBeforeItTakesPart(t *testing.T) {
	const ttl = 3 * time.Second
	for _, gone := range []time.Duration{0, ttl / 3, ttl, 2 * ttl} {
		synctest.Test(t, func(t *testing.T) {
			o := EmbeddedOptions{Clock: clock.Bubble(), ActiveTTL: ttl}
			q := &Quorum{Embedded: &Embedded{opts: o}, opts: QuorumOptions{EmbeddedOptions: o}}
			since, begun := o.Clock.Now(), time.Now()
			time.Sleep(gone)
			if !q.rested(t.Context(), since) || time.Since(begun) != max(ttl, gone) {
				t.Errorf("%v after its start it rests until %v after it", gone, time.Since(begun))
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if q.rested(ended, o.Clock.Now()) {
				t.Error("one that is to end has rested")
			}
		})
	}
}
