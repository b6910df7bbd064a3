package endtoend

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// epoch is that of the tenure in force.
func (q *quorum) epoch() string {
	q.t.Helper()
	_, text := q.active().get("/v1/status")
	return read[struct{ Epoch string }](q.t, text).Epoch
}

// lead has the member of one server lead, as a peer asks for it.
func (q *quorum) lead(s *server) {
	q.t.Helper()
	i := slices.Index(q.servers, s)
	testwait.Until(q.t, bound, "its member leads", func() bool {
		leader := q.leader()
		if leader == s {
			return true
		}
		var id uint64
		for _, m := range q.members(leader) {
			if strings.HasPrefix(q.peers[i], m.Name+"=") {
				id, _ = strconv.ParseUint(m.ID, 16, 64)
			}
		}
		_, at, _ := strings.Cut(q.peers[slices.Index(q.servers, leader)], "=")
		res, err := http.Post(at+"/pawl/v1/lead", "application/json", strings.NewReader(fmt.Sprintf(`{"to":"%d"}`, id)))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// Nobody who works is deposed: not when the lead is moved to another member, nor when the
// member that leads is killed, nor by standbys that are stopped and go on.
func TestQuorumWorkingServerStays(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	g := granting(t, q.dial(20*time.Second), "turn")
	g.more(10, "grants")
	active, epoch := q.active(), q.epoch()
	var standbys []*server
	for _, s := range q.servers {
		if s != active {
			standbys = append(standbys, s)
		}
	}
	for _, s := range standbys {
		q.lead(s)
		g.more(10, "grants while another member leads")
		testwait.Until(t, bound, "the active server's member leads again", func() bool { return q.leader() == active })
	}
	for range 3 {
		for _, s := range standbys {
			s.pause()
			g.more(10, "grants while a standby is stopped")
			s.resume()
		}
	}
	g.more(10, "grants after both went on")
	q.lead(standbys[0])
	standbys[0].stop(syscall.SIGKILL)
	killed := clock.Boottime()
	t.Logf("the member that leads is killed: granted again after %v", (g.more(1, "a grant without it") - killed).Round(time.Millisecond))
	g.more(50, "grants without it")
	if now := q.epoch(); q.active() != active || now != epoch {
		t.Errorf("epoch %s after %s: a server that works was deposed", now, epoch)
	}
}

// Servers are restarted one after the other, as an upgrade does, while leases are held
// and asked for: none is lost, and each stop hands over at once.
func TestQuorumRollingRestart(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	c := q.dial(20 * time.Second)
	held := acquire(t, c, "held")
	g := granting(t, c, "turn")
	for round := range max(1, testwait.Reps(3)) {
		for i, s := range q.servers {
			g.more(10, "grants before the stop")
			decides := s == q.active()
			asked := clock.Boottime()
			if code := s.stop(syscall.SIGTERM); code != 0 {
				t.Errorf("a clean stop: exit code %d", code)
			}
			again := g.more(1, "a grant by the others") - asked
			t.Logf("round %d, n%d stopped, active: %v: stopped and granted within %v", round, i+1, decides, again.Round(time.Millisecond))
			s.launch()
			q.ready(s)
			q.voters(s, "n1", "n2", "n3")
		}
	}
	if err := held.Check(t.Context()); err != nil {
		t.Errorf("a lease held over all restarts: %v", err)
	}
}

// A minority neither grants nor lies: the one server that is left of three answers no
// acquire, and shows nothing as held or free, until there is a majority again. It says
// what is missing.
func TestQuorumMinorityIsSilent(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	held := acquire(t, q.dial(2*time.Minute), "held")
	left := q.active()
	q.voters(left, "n1", "n2", "n3")
	var gone []string
	for i, s := range q.servers {
		if s != left {
			s.stop(syscall.SIGKILL)
			gone = append(gone, fmt.Sprintf("n%d", i+1))
		}
	}
	if r := left.pawl("acquire", "free", "--wait", "1s"); r.code != exit.CodeUnavailable {
		t.Errorf("a minority grants, or says another thing than that it cannot answer: %v", r)
	}
	if r := left.pawl("ls"); r.code != exit.CodeUnavailable {
		t.Errorf("a minority shows what is held, or says another thing than that it cannot answer: %v", r)
	}
	missing := "a majority of the members: 2 of 3 are needed, and no answer comes from " + strings.Join(gone, ", ")
	testwait.Until(t, bound, "the status says what is missing", func() bool { return strings.Contains(left.want(0, "status").stdout, missing) })
	for _, args := range []string{"ls", "acquire free", "run free -w 1s -- true", "show free", "member add n9=http://127.0.0.1:1"} {
		contains(t, left.want(exit.CodeUnavailable, strings.Fields(args)...).stderr, "no server serves", missing, `"pawl doctor"`)
	}
	contains(t, left.want(1, "doctor").stdout, "waits for "+missing)
	q.up()
	testwait.Until(t, bound, "nothing is missing", func() bool {
		r := left.pawl("status", "--json")
		return r.code == 0 && !strings.Contains(r.stdout, `"waits"`)
	})
	if err := held.Check(t.Context()); err != nil {
		t.Errorf("a lease held over the loss of the majority: %v", err)
	}
}
