package etcdstore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
	"github.com/pawlproject/pawl/internal/testwait"
)

// A copy of a machine is refused before its member starts, since the first one answers
// at the address that both have.
func TestQuorumTwinIsRefusedAtItsOwnAddress(t *testing.T) {
	all := foundQuorum(t, 3)
	first := all[2]
	o := again(t, first.opts, "127.0.0.1:0")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	o.Dir = t.TempDir()
	if err := os.CopyFS(o.Dir, os.DirFS(first.opts.Dir)); err != nil {
		t.Fatal(err)
	}
	_, address, _ := strings.Cut(first.peers.own().URL, "//")
	back := again(t, first.opts, address)
	openMember(t, back) // it answers, and rests for its active-ttl
	twin := openMember(t, o)
	testwait.Until(t, bound, "the twin ends", func() bool { return twin.Err() != nil })
	if err := twin.Err(); !errors.Is(err, ErrPeers) || !strings.Contains(err.Error(), "at its own address") {
		t.Errorf("it ends with %v", err)
	}
	if twin.peers.etcd.Load() != nil {
		t.Error("its member has started")
	}
}

// The others hear two processes of one member. The one that began later is to stop, and
// the first one goes on.
func TestQuorumTwinIsHeard(t *testing.T) {
	all := foundQuorum(t, 3)
	first := all[2]
	self := founding.Self{Name: "n3", First: "n1", Served: true, Cluster: uint64(first.etcd.Server.Cluster().ID()), ID: first.Own()}
	look := func(when string) {
		t.Helper()
		if err := first.look(t.Context(), new(watched)); err != nil {
			t.Errorf("%s the first one stops: %v", when, err)
		}
	}
	look("alone")
	o := first.opts
	o.Peers = append([]Peer(nil), o.Peers...)
	o.Peers[2].URL = "http://127.0.0.1:1" // its own address does not show the first one
	second, err := newPeering(o)
	if err != nil {
		t.Fatal(err)
	}
	decide := func() founding.Decision {
		_, peers := second.look(t.Context(), self)
		return founding.Decide(self, peers)
	}
	// It might be a restart. (The first one still answers at its own address, which the
	// cluster knows; a real copy has none there.)
	delete(first.peers.heard, self.ID)
	for _, q := range all[:2] {
		if a, err := second.ask(t.Context(), q.peers.own().URL, self.ID); err != nil || a.Twin {
			t.Fatalf("a restart is told to stop: %v %v", a.Twin, err)
		}
	}
	look("when it learns the mark")
	look("when it sends the mark")
	d := decide()
	if d.Do != founding.Refuse || d.Reason != founding.Twice || !strings.Contains(d.Why, "n1 hears it, n2 hears it") {
		t.Errorf("the second one: %s, %s", d.Do, d.Why)
	}
	look("after that")
}

// What was sent before a restart and read after it is no twin.
func TestHearRestart(t *testing.T) {
	p := &peering{visit: "v0", heard: map[uint64]*visits{}}
	old, _ := p.hear(1, "v1", "")
	mark, twin := p.hear(1, "v2", "")
	if twin || mark == old {
		t.Fatalf("a restart: %v, marks %q and %q", twin, old, mark)
	}
	for range 3 {
		_, _ = p.hear(1, "v1", old)
	}
	if _, twin := p.hear(1, "v2", mark); twin {
		t.Error("late requests of the process before were taken for a twin")
	}
	_, _ = p.hear(1, "v1", mark)
	if _, twin := p.hear(1, "v2", mark); !twin {
		t.Error("the process before knows the mark of this one, and is not taken for a twin")
	}
	if _, twin := p.hear(1, "v3", ""); twin {
		t.Error("the restart of a twin is refused without a sign of the first one")
	}
	for range 2 * earlierKept {
		_, _ = p.hear(1, p.heard[1].latest[:1]+string(rune('a'+len(p.heard[1].earlier))), "")
	}
	if n := len(p.heard[1].earlier); n > earlierKept {
		t.Errorf("%d earlier visits are kept", n)
	}
}

// A twin that is started again and again stays the later one, however often.
func TestHearFirstAmongRestarts(t *testing.T) {
	p := &peering{visit: "v000", heard: map[uint64]*visits{}}
	first, _ := p.hear(1, "v100", "")
	for i := range 2 * earlierKept {
		visit := fmt.Sprintf("v2%02d", i)
		mark, _ := p.hear(1, visit, "")
		var twin bool
		for range 2 {
			if first, twin = p.hear(1, "v100", first); twin {
				t.Fatalf("after %d restarts of a twin the first process is to stop", i)
			}
		}
		if _, twin := p.hear(1, visit, mark); !twin {
			t.Fatalf("after %d restarts the twin may go on", i)
		}
	}
}
