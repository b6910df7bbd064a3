package endtoend

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/testwait"
)

// drilled is what status and report of a drill say.
type drilled struct {
	Drill    string
	Role     string
	Epoch    string
	Lasted   string
	Sessions int
	Lost     []struct {
		Holder, Label string
		Names         []string
		Leases        int
	}
	LostCount  int `json:"lost_count"`
	RidesCount int `json:"rides_count"`
	Missing    int
}

// drillSeen is long enough for a status to tell of it: one that is asked for just as the
// outage begins is answered after twice --active-ttl, 6 s.
const drillSeen = 9 * time.Second

// drill begins a drill, and returns the command that waits for its report.
func (s *server) drill(lasts time.Duration) *begun {
	s.t.Helper()
	b := begin(s.t, s.command(2*bound, "drill", "outage", "--for", lasts.String(), "--json"))
	testwait.Until(s.t, bound, "status tells of the drill", func() bool { return s.status().Drill != "" })
	return b
}

// status is what the server says of itself; zero: nothing.
func (s *server) status() drilled {
	s.t.Helper()
	code, text := s.get("/v1/status")
	if code != http.StatusOK {
		return drilled{}
	}
	return read[drilled](s.t, text)
}

// A drill that is longer than TTLs: nothing is answered, and no session expires. A holder
// whose trust lasts longer keeps its lease and does not notice; one with a short TTL has
// its lease when it returns; one that does not return is reported as lost.
func TestDrillOutage(t *testing.T) {
	s := newServer(t)
	s.up()
	steady := acquire(t, dial(t, s.link, 30*time.Second), "steady")
	back := read[struct{ Lease string }](t, s.want(0, "acquire", "back", "--ttl", "8s", "--label", "back").stdout)
	s.want(0, "acquire", "lost", "--ttl", "3s", "--label", "lost")

	waiter := dial(t, s.link, 30*time.Second)

	report := s.drill(9 * time.Second)
	granted := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
		defer cancel()
		l, err := waiter.Acquire(ctx, "new")
		if err != nil {
			t.Errorf("an acquire that waits through the drill: %v", err)
			granted <- ""
			return
		}
		defer l.Release(context.WithoutCancel(ctx))
		granted <- s.status().Drill
	}()
	contains(t, s.want(0, "status").stdout, "DRILL", "as one that lost its quorum")
	if code, text := s.get("/metrics"); code != http.StatusOK || strings.Contains(text, "\npawl_drill_left_seconds 0\n") ||
		!strings.Contains(text, "\npawl_drill_left_seconds ") || strings.Contains(text, "\npawl_active ") {
		t.Errorf("%d\n%s", code, text)
	}
	contains(t, s.want(64, "drill", "outage", "--for", "1s").stderr, "a drill is held already")
	if code, text := s.get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz, as without a quorum: %d %s", code, text)
	}
	if drill := <-granted; drill != "" {
		t.Errorf("an acquire was granted with %s of the drill left", drill)
	}
	s.want(0, "renew", back.Lease)
	r := report.end()
	if r.code != 0 {
		t.Fatal(r)
	}
	got := read[drilled](t, r.stdout)
	if got.LostCount != 1 || len(got.Lost) != 1 || got.Lost[0].Label != "lost" || len(got.Lost[0].Names) != 1 || got.Lost[0].Names[0] != "lost" ||
		got.Sessions != 4 || got.Missing != 0 || got.RidesCount != 0 {
		t.Errorf("%+v", got)
	}
	if err := steady.Check(t.Context()); err != nil || steady.Context().Err() != nil {
		t.Errorf("the holder with a long TTL: %v", err)
	}
	contains(t, s.said(), "drill: the outage begins", "drill: the outage is over", "drill: report", "did not return within its TTL")
}

// A drill whose asker is killed ends by itself, and its report is in the server's log.
func TestDrillOutlivesItsAsker(t *testing.T) {
	s := newServer(t)
	s.up()
	asker := s.drill(drillSeen)
	if err := asker.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	asker.end()
	testwait.Until(t, bound, "the drill ends", func() bool { return strings.Contains(s.said(), "drill: report") })
	lasted := regexp.MustCompile(`"drill: the outage is over","lasted":"([^"]+)"`).FindStringSubmatch(s.said())
	if lasted == nil {
		t.Fatal(s.said())
	}
	if d, err := time.ParseDuration(lasted[1]); err != nil || d < drillSeen {
		t.Errorf("the outage lasted %s, %v", lasted[1], err)
	}
	s.want(0, "acquire", "x")

	// Interrupted, the command says that the drill goes on.
	asker = s.drill(drillSeen)
	if err := asker.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	contains(t, asker.end().stderr, "the outage goes on until")
}

// A server that stops ends its drill, and says so to the asker.
func TestDrillEndsWithItsServer(t *testing.T) {
	s := newServer(t)
	s.up()
	asker := s.drill(time.Hour)
	s.stop(syscall.SIGTERM)
	if r := asker.end(); r.code != 1 && r.code != 69 {
		t.Error(r)
	}
	s.up()
	s.want(0, "acquire", "x")
}

// A standby does not take over during a drill of more than twice the active-ttl.
func TestEtcdDrillKeepsTheTenure(t *testing.T) {
	wholly(t)
	active, standby := two(t, etcdtest.Start(t, etcdtest.Options{Members: 1}))
	before := active.status().Epoch
	r := active.drill(8 * time.Second).end()
	if r.code != 0 {
		t.Fatal(r)
	}
	if st := active.status(); st.Role != "active" || st.Epoch != before {
		t.Errorf("afterwards: %+v; epoch %s was expected", st, before)
	}
	if st := standby.status(); st.Role != "standby" {
		t.Errorf("the standby: %+v", st)
	}
}
