package founding

import (
	"slices"
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	empty := func(name string) Peer { return Peer{Name: name, Known: true, State: Empty, First: "n1"} }
	silent := func(name string) Peer { return Peer{Name: name, Known: true, Silent: true} }
	at := func(name string, s State, cluster uint64) Peer {
		return Peer{Name: name, Known: true, State: s, First: "n1", Cluster: cluster}
	}
	n1 := Self{Name: "n1", First: "n1"}
	n2 := Self{Name: "n2", First: "n1"}
	served := Self{Name: "n2", First: "n1", Served: true, Cluster: 7, ID: 2, Last: 100}
	alone := served
	alone.Alone = true
	follows := func(p Peer, leader, applied uint64) Peer { p.Leader, p.Applied = leader, applied; return p }
	voters := func(p Peer, n int) Peer { p.Voters = n; return p }
	acked := func(p Peer, last uint64) Peer { p.Acknowledged = last; return p }
	for _, c := range []struct {
		what   string
		self   Self
		peers  []Peer
		do     Do
		reason Reason
		of     string
	}{
		{"the only name founds", n1, nil, Found, "", ""},
		{"the first founds among empty ones", n1, []Peer{empty("n2"), empty("n3")}, Found, "", ""},
		{"the first waits for a silent one", n1, []Peer{empty("n2"), silent("n3")}, Wait, "", "n3"},
		{"the first waits for all that are silent", n1, []Peer{silent("n3"), silent("n2")}, Wait, "", "n2, n3"},
		{"the first waits for one that has not started its member", n1, []Peer{empty("n2"), at("n3", Starting, 7)}, Wait, "", "n3"},
		{"the first waits for one that is joining", n1, []Peer{empty("n2"), at("n3", Joining, 0)}, Wait, "", "n3"},
		{"the first comes back empty after others have joined", n1, []Peer{at("n2", Member, 7), silent("n3")}, Join, "", "n2"},
		{"one that is silent does not keep from joining", n2, []Peer{at("n1", Member, 7), silent("n3")}, Join, "", "n1"},
		{"another joins while the first one founds", n2, []Peer{at("n1", Founding, 7), empty("n3")}, Join, "", "n1"},
		{"another waits for the first", n2, []Peer{empty("n1"), empty("n3")}, Wait, "", "n1"},
		{"another waits for the first, though it is silent", n2, []Peer{silent("n1"), empty("n3")}, Wait, "", "n1"},
		{"another does not wait for what is not among its names", n1, []Peer{empty("n2"), empty("n3"), {Name: "n9", Silent: true}}, Found, "", ""},
		{"two found no cluster", n1, []Peer{empty("n2")}, Refuse, Even, "n1, n2"},
		{"one of two joins what is there", n1, []Peer{at("n2", Member, 7)}, Join, "", "n2"},
		{"one of two waits while nobody answers", n1, []Peer{silent("n2")}, Wait, "", "n2"},
		{"two that each are the first of their list", n1, []Peer{{Name: "n2", Known: true, State: Empty, First: "n2"}}, Refuse, Disagree, "n2 (n2)"},
		{"a list in another order does not matter once there is a cluster", n2, []Peer{{Name: "n1", Known: true, State: Member, First: "n3", Cluster: 7}}, Join, "", "n1"},

		{"a folder that nobody can judge starts", served, []Peer{silent("n1"), silent("n3")}, Start, "", ""},
		{"a folder among empty ones starts", served, []Peer{empty("n1"), empty("n3")}, Start, "", ""},
		{"a folder as far as was acknowledged starts", served, []Peer{acked(at("n1", Member, 7), 100)}, Start, "", "n1"},
		{"a folder ahead of what is known starts", served, []Peer{acked(at("n1", Member, 7), 0), acked(at("n3", Member, 7), 90)}, Start, "", "n1, n3"},
		{"a folder that only one judges that knows nothing of it", served, []Peer{at("n1", Member, 7), silent("n3")}, Start, "", "n1"},
		{"an old folder", served, []Peer{acked(at("n1", Member, 7), 0), acked(at("n3", Member, 7), 101)}, Refuse, Old, "n3"},
		{"a foreign folder", served, []Peer{at("n1", Member, 8), silent("n3")}, Refuse, Foreign, "n1"},
		{"one foreign peer beside one of the cluster", served, []Peer{at("n1", Member, 8), at("n3", Member, 7)}, Start, "", "n3"},
		{"what a foreign peer says does not count", served, []Peer{acked(at("n1", Member, 8), 500), at("n3", Member, 7)}, Start, "", "n3"},
		{"a folder from before the others, which are silent, waits", alone, []Peer{silent("n1"), silent("n3")}, Wait, "", "n1, n3"},
		{"a folder from before the others waits for each of them", alone, []Peer{empty("n1"), silent("n3")}, Wait, "", "n3"},
		{"a folder from before the others waits until they have started", alone, []Peer{at("n1", Starting, 0), at("n3", Starting, 0)}, Wait, "", "n1, n3"},
		{"a folder from before the others waits while they follow one of them", alone, []Peer{follows(at("n1", Member, 7), 1, 100), empty("n3")}, Wait, "", "n1"},
		{"a folder that ends before what others have applied", alone, []Peer{follows(at("n1", Member, 7), 0, 101), silent("n3")}, Refuse, Old, "n1"},
		{"others that have applied more, where it is no only voter", served, []Peer{follows(at("n1", Member, 7), 1, 101)}, Start, "", "n1"},
		{"the only member starts among empty ones", alone, []Peer{empty("n1"), empty("n3")}, Start, "", ""},
		{"the only member starts without others in its list", alone, nil, Start, "", ""},
		{"the only member does not wait for what is not among its names", alone, []Peer{{Name: "n9", Silent: true}}, Start, "", ""},
		{"the only member starts for its learner that runs and waits for it", alone, []Peer{voters(at("n1", Starting, 7), 1), empty("n3")}, Start, "", "n1"},
		{"a folder from before the others waits for one that runs and knows more voters", alone, []Peer{voters(at("n1", Starting, 7), 2)}, Wait, "", "n1"},
		{"the only member starts for its learner", alone, []Peer{follows(at("n1", Member, 7), 2, 100)}, Start, "", "n1"},
		{"a second process as this server", served, []Peer{at("n1", Member, 7), {Name: "n3", Twin: "n3 hears it"}}, Refuse, Twice, "n2"},
		{"a second process as this empty server", n1, []Peer{{Name: "n1", Twin: "at its address"}, empty("n2"), empty("n3")}, Refuse, Twice, "n1"},
		{"a removed member", served, []Peer{{Name: "n1", Known: true, State: Member, Cluster: 7, Removed: true}}, Refuse, Removed, "n1"},
	} {
		d := Decide(c.self, c.peers)
		if d.Do != c.do || d.Reason != c.reason || list(d.Of) != c.of {
			t.Errorf("%s: %s %s of %q, expected %s %s of %q", c.what, d.Do, d.Reason, list(d.Of), c.do, c.reason, c.of)
		}
		if (d.Do == Wait || d.Do == Refuse) && d.Why == "" {
			t.Errorf("%s: nobody is told why", c.what)
		}
		// Who answers, and led last before this member had acknowledged anything, cannot tell.
		told := func(p Peer) bool { return p.Cluster == c.self.Cluster && p.Acknowledged > 0 }
		if d.Do == Start && d.Unchecked == slices.ContainsFunc(c.peers, told) {
			t.Errorf("%s: unchecked is %v", c.what, d.Unchecked)
		}
	}
}

func TestOutgrown(t *testing.T) {
	self := Self{Name: "n1", Cluster: 7, ID: 1, Last: 100}
	for _, c := range []struct {
		what string
		peer Peer
		why  string
		sure bool
	}{
		{"silent", Peer{Silent: true}, "", false},
		{"empty", Peer{State: Empty}, "", false},
		{"its learner", Peer{Cluster: 7, Applied: 100, Leader: 1, Voters: 1}, "", false},
		{"its learner that knows of no leader", Peer{Cluster: 7, Applied: 90, Voters: 2}, "", false},
		{"further than the only voter", Peer{Cluster: 7, Applied: 101, Leader: 1}, "has entry 101", true},
		{"led by another", Peer{Cluster: 7, Applied: 50, Leader: 2, Voters: 3}, "led by another", false},
		{"another cluster of many", Peer{Cluster: 8, Known: true, Leader: 5, Voters: 3}, "one of 3 members in cluster 8", false},
		{"another cluster of many without a leader", Peer{Cluster: 8, Known: true, Voters: 3}, "", false},
		{"another cluster of one", Peer{Cluster: 8, Known: true, Leader: 5, Voters: 1}, "", false},
		{"another cluster at an address that was not told", Peer{Cluster: 8, Leader: 5, Voters: 3}, "", false},
	} {
		why, sure := Outgrown(self, []Peer{{Silent: true}, c.peer})
		if sure != c.sure || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q (%v), expected %q (%v)", c.what, why, sure, c.why, c.sure)
		}
	}
}

// TestOneFounder goes through all that three empty servers can see of each other: two
// that see nothing of a cluster never both found.
func TestOneFounder(t *testing.T) {
	names := []string{"n1", "n2", "n3"}
	states := []State{Empty, Joining, Starting, ""} // "": silent
	for _, first := range names {
		founders := map[string]bool{}
		for _, me := range names {
			for _, a := range states {
				for _, b := range states {
					var peers []Peer
					for _, other := range names {
						if other != me {
							s := a
							if len(peers) > 0 {
								s = b
							}
							peers = append(peers, Peer{Name: other, Known: true, State: s, Silent: s == "", First: first})
						}
					}
					d := Decide(Self{Name: me, First: first}, peers)
					if d.Do == Found {
						founders[me] = true
						if a != Empty || b != Empty {
							t.Errorf("%s founds while its peers are %q and %q", me, a, b)
						}
					}
				}
			}
		}
		if len(founders) != 1 || !founders[first] {
			t.Errorf("%v found where %s is the first", founders, first)
		}
	}
}
