package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// quorum is servers that keep one cell together.
type quorum struct {
	t       testing.TB
	servers []*server
	peers   []string // NAME=URL
}

// newQuorum returns n servers, n1 and so on, that have not started.
func newQuorum(t testing.TB, n int, args ...string) *quorum {
	t.Helper()
	q := &quorum{t: t}
	for i := range n {
		q.peers = append(q.peers, fmt.Sprintf("n%d=http://%s", i+1, freeAddress(t)))
	}
	for i := range n {
		q.servers = append(q.servers, q.server(fmt.Sprintf("n%d", i+1), q.peers, args...))
	}
	return q
}

// server is one that is told of these peers.
func (q *quorum) server(name string, peers []string, args ...string) *server {
	q.t.Helper()
	s := newServer(q.t, append([]string{"--node", name, "--peers", strings.Join(peers, ",")}, args...)...)
	q.t.Cleanup(func() {
		if q.t.Failed() {
			q.t.Logf("%s:\n%s", name, s.said())
		}
	})
	return s
}

// up starts all that are not up, and waits until they are ready.
func (q *quorum) up() {
	q.t.Helper()
	for _, s := range q.servers {
		if s.cmd == nil || s.over() {
			s.launch()
		}
	}
	for _, s := range q.servers {
		q.ready(s)
	}
}

func (q *quorum) ready(s *server) {
	q.t.Helper()
	testwait.Until(q.t, bound, "/readyz answers 200", func() bool {
		if s.over() {
			q.t.Fatalf("the server ended with %d:\n%s", s.cmd.ProcessState.ExitCode(), s.said())
		}
		code, _ := s.get("/readyz")
		return code == http.StatusOK
	})
}

// active is the one that decides.
func (q *quorum) active() (active *server) {
	q.t.Helper()
	testwait.Until(q.t, bound, "one server is active", func() bool {
		active = nil
		for _, s := range q.servers {
			if code, text := s.get("/v1/status"); code == http.StatusOK && strings.Contains(text, `"active":true`) {
				active = s
			}
		}
		return active != nil
	})
	return active
}

func (q *quorum) dial(ttl time.Duration) *pawl.Client {
	q.t.Helper()
	var links []string
	for _, s := range q.servers {
		links = append(links, s.link)
	}
	ctx, cancel := context.WithTimeout(q.t.Context(), bound)
	defer cancel()
	c, err := pawl.Dial(ctx, links, pawl.Options{TTL: ttl, Label: q.t.Name()})
	if err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(func() { _ = c.Close() }) // its servers may be gone
	return c
}

type memberShown struct {
	Name, URL, Role       string
	ID                    string
	Leads, Answers, Asked bool
	Applied               json.Number
}

// members are as a server sees them.
func (q *quorum) members(s *server) []memberShown {
	q.t.Helper()
	r := s.want(0, "member", "list", "--json")
	return read[struct{ Members []memberShown }](q.t, r.stdout).Members
}

// voters waits until these are the voters, and all answer.
func (q *quorum) voters(s *server, names ...string) {
	q.t.Helper()
	testwait.Until(q.t, bound, "the voters are "+strings.Join(names, ", "), func() bool {
		var voters []string
		for _, m := range q.members(s) {
			if m.Role == "voter" && m.Answers {
				voters = append(voters, m.Name)
			}
		}
		slices.Sort(voters)
		return slices.Equal(voters, names)
	})
}

// leader is the server whose member leads.
func (q *quorum) leader() *server {
	q.t.Helper()
	var leader *server
	testwait.Until(q.t, bound, "somebody leads", func() bool {
		for i, s := range q.servers {
			if s.over() {
				continue
			}
			for _, m := range q.members(s) {
				if m.Leads && m.Asked {
					leader = q.servers[i]
					return true
				}
			}
		}
		return false
	})
	return leader
}

// Three servers with nothing beside them. Each is killed in turn, the active one and
// the leading one as well: the rest goes on, the killed one comes back, a lease that is
// held lives through it all, and tokens rise.
func TestQuorumServerIsKilled(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	c := q.dial(30 * time.Second)
	held := acquire(t, c, "held")
	g := granting(t, c, "turn")
	for range testwait.Reps(1) {
		for i, pick := range []func() *server{q.active, q.leader, func() *server { return q.servers[2] }} {
			g.more(20, "grants before the kill")
			s := pick()
			s.stop(syscall.SIGKILL)
			killed := clock.Boottime()
			t.Logf("kill %d: granted again after %v", i, (g.more(1, "a grant by the others") - killed).Round(time.Millisecond))
			s.launch()
			q.ready(s)
			q.voters(s, "n1", "n2", "n3")
		}
	}
	if err := held.Check(t.Context()); err != nil {
		t.Errorf("a lease held over all kills: %v", err)
	}
}

// A founder that waits says for whom, also to who asks for the state and the members.
func TestQuorumFounderSaysForWhomItWaits(t *testing.T) {
	q := newQuorum(t, 3)
	founder, joiner := q.servers[0], q.servers[1]
	founder.launch()
	joiner.launch()
	for s, whom := range map[*server]string{founder: "n3 (this server founds the cluster when all others have answered", joiner: "n1 (the first of --peers founds the cluster)"} {
		testwait.Until(t, bound, "it says for whom it waits", func() bool {
			return strings.Contains(s.pawl("member", "list").stderr, "it waits for "+whom)
		})
		contains(t, s.want(0, "status").stdout, "it waits for", whom, "nothing is granted or renewed before")
	}
}

// All servers are stopped, and two are started again: that is a majority. One alone
// waits, and says for whom.
func TestQuorumStartsWithAMajority(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	token := acquire(t, q.dial(5*time.Second), "before").Token()
	for _, s := range q.servers {
		s.stop(syscall.SIGKILL)
	}
	q.servers = q.servers[1:]
	one := q.servers[0]
	one.launch()
	testwait.Until(t, bound, "it says for whom it waits", func() bool {
		return strings.Contains(one.said(), "a majority of the members: 2 of 3 are needed, and no answer comes from n1, n3")
	})
	q.up()
	if after := acquire(t, q.dial(5*time.Second), "after").Token(); after <= token {
		t.Errorf("token %d after %d", after, token)
	}
}

// A server that lost its folder joins again by itself, and counts for a majority.
func TestQuorumEmptyServerJoins(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	g := granting(t, q.dial(10*time.Second), "turn")
	for _, i := range []int{2, 0} { // another one, and the one that founded
		s := q.servers[i]
		g.more(20, "grants with all")
		s.stop(syscall.SIGKILL)
		if err := os.RemoveAll(s.data); err != nil {
			t.Fatal(err)
		}
		s.launch()
		q.ready(s)
		q.voters(s, "n1", "n2", "n3")
	}
	q.servers[1].stop(syscall.SIGKILL)
	g.more(20, "grants by the two that had joined")
}

// An older copy of a member's folder is refused while the others know better, and so
// is the folder of another cell's member. The others go on.
func TestQuorumOldFolderIsRefused(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	g := granting(t, q.dial(10*time.Second), "turn")
	s := q.servers[2]
	if s == q.active() {
		s = q.servers[1]
	}
	g.more(10, "grants with all")
	s.stop(syscall.SIGTERM)
	old := s.data + ".old"
	if err := os.CopyFS(old, os.DirFS(s.data)); err != nil {
		t.Fatal(err)
	}
	s.launch()
	q.ready(s)
	q.voters(s, "n1", "n2", "n3")
	g.more(50, "grants with all again")
	s.stop(syscall.SIGKILL)
	if err := os.Rename(s.data, s.data+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, s.data); err != nil {
		t.Fatal(err)
	}
	s.launch()
	if code := s.end(); code != 65 {
		t.Errorf("an old folder: exit code %d", code)
	}
	contains(t, s.said(), "store_rolled_back", "had acknowledged entry", "let it join with an empty folder")

	other := newQuorum(t, 1)
	other.up()
	other.servers[0].stop(syscall.SIGTERM)
	own := s.data
	s.data = other.servers[0].data
	s.launch()
	if code := s.end(); code != 65 {
		t.Errorf("a foreign folder: exit code %d", code)
	}
	contains(t, s.said(), "store_rolled_back", "of another one")

	s.data = own
	if err := os.RemoveAll(filepath.Join(own, "etcd")); err != nil {
		t.Fatal(err)
	}
	s.launch()
	q.ready(s)
	q.voters(s, "n1", "n2", "n3")
	g.more(10, "grants with the one that joined")
}

// A server that was started alone becomes a quorum of one, and grows to three while it
// serves. The lease that is held from the beginning lives through it.
func TestQuorumGrowsFromOneServer(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	first := q.servers[0]
	alone := first.args
	first.args = nil
	first.up()
	first.want(1, "member", "list")
	c := q.dial(60 * time.Second)
	held := acquire(t, c, "held")
	first.stop(syscall.SIGTERM)
	first.args = alone
	first.args[3] = q.peers[0]
	first.launch()
	q.ready(first)
	q.voters(first, "n1")
	g := granting(t, c, "turn")
	for i, s := range q.servers[1:] {
		s.args[3] = q.peers[0] + "," + q.peers[i+1] + ",unused=http://127.0.0.1:1"
		s.launch()
		testwait.Until(t, bound, "it is not let in", func() bool {
			return strings.Contains(s.said(), "pawl member add "+q.peers[i+1])
		})
		first.want(0, "member", "add", q.peers[i+1])
		q.ready(s)
		g.more(10, "grants by more servers")
	}
	q.voters(first, "n1", "n2", "n3")
	first.stop(syscall.SIGKILL)
	g.more(10, "grants without the first server")
	if err := held.Check(t.Context()); err != nil {
		t.Errorf("a lease held since the server was alone: %v", err)
	}
}

// Members are removed and replaced; what the quorum needs is not removed.
func TestQuorumMembersChange(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	n1, n2, n3 := q.servers[0], q.servers[1], q.servers[2]
	g := granting(t, q.dial(20*time.Second), "turn")
	n3.stop(syscall.SIGKILL)
	contains(t, n1.want(1, "member", "remove", "n2").stderr, "the quorum needs n2", "n1, n3")
	q.voters(n1, "n1", "n2")

	// A new one in the place of the one that is gone.
	peer := "n4=http://" + freeAddress(t)
	testwait.Until(t, bound, "n3 may be replaced", func() bool {
		r := n1.pawl("member", "replace", "n3", peer)
		if r.code == 0 {
			contains(t, r.stdout, "n4 may join in the place of n3. Start n4 on an empty folder", "PAWL_SERVERS of the clients",
				"pawl serve --node n4 --peers "+strings.Join(q.peers[:2], ",")+","+peer, "n3 is removed when n4 has its vote")
		}
		return r.code == 0
	})
	n4 := q.server("n4", append(slices.Clone(q.peers[:2]), peer))
	q.servers = []*server{n1, n2, n4}
	n4.launch()
	q.ready(n4)
	q.voters(n1, "n1", "n2", "n4")
	g.more(10, "grants with the new one")

	n3.launch()
	if code := n3.end(); code != 65 {
		t.Errorf("a member that was replaced: exit code %d", code)
	}
	contains(t, n3.said(), "was removed from the cluster", "pawl member add "+q.peers[2]+", remove "+n3.data+"/etcd, and start it again")

	// One that is up and works is replaced, and its server ends.
	again := "n5=http://" + freeAddress(t)
	n1.want(0, "member", "replace", "n2", again)
	n5 := q.server("n5", append(slices.Clone(q.peers[:1]), peer, again))
	n5.launch()
	q.ready(n5)
	if code := n2.end(); code != 65 {
		t.Errorf("a member that is replaced while it runs: exit code %d", code)
	}
	contains(t, n2.said(), "was removed from the cluster")
	q.servers = []*server{n1, n4, n5}
	q.voters(n1, "n1", "n4", "n5")
}

// Two of three disks are lost. The member that is left becomes a cluster of its own:
// the cell keeps its id, tokens rise, leases end and their holders are told, and new
// members join. Before, it says what it does; a lost member that comes back is refused.
func TestQuorumIsRecovered(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	n1, n2, n3 := q.servers[0], q.servers[1], q.servers[2]
	c := q.dial(60 * time.Second)
	held := acquire(t, c, "held")
	applied := func(of string) (n int) {
		for _, m := range q.members(n1) {
			if m.Name == of {
				n, _ = strconv.Atoi(m.Applied.String())
			}
		}
		return n
	}
	reached := applied("n1")
	testwait.Until(t, bound, "n3 has what was acknowledged", func() bool { return applied("n3") >= reached })
	type status struct{ Cell string }
	_, text := q.active().get("/v1/status")
	cell := read[status](t, text).Cell
	for _, s := range q.servers {
		s.stop(syscall.SIGKILL)
	}
	if r := n3.pawl("member", "recover", "--data", n3.data); r.code != 64 || !strings.Contains(r.stdout, "every lease ends") {
		t.Fatalf("without --yes: %v", r)
	}
	r := n3.want(0, "member", "recover", "--data", n3.data, "--yes")
	contains(t, r.stdout, "the cell "+cell+" goes on", "1 leases have ended", "etcd.lost")
	contains(t, n3.want(0, "member", "recover", "--data", n3.data, "--yes").stdout, "is alone", "nothing was changed")
	n3.launch()
	q.ready(n3)
	testwait.Until(t, bound, "the holder is told", func() bool { return context.Cause(held.Context()) != nil })

	// n2 comes back with what it had, and n1 empty.
	n2.launch()
	if code := n2.end(); code != 65 || !strings.Contains(n2.said(), "of another one") {
		t.Errorf("a lost member that comes back: exit code %d\n%s", code, n2.said())
	}
	for _, s := range []*server{n1, n2} {
		if err := os.RemoveAll(s.data); err != nil {
			t.Fatal(err)
		}
	}
	q.up()
	q.voters(n3, "n1", "n2", "n3")
	n3.stop(syscall.SIGKILL)
	if again := acquire(t, q.dial(5*time.Second), "held"); again.Token() <= held.Token() {
		t.Errorf("token %d after %d", again.Token(), held.Token())
	}
}
