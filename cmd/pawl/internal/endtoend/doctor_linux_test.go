package endtoend

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/pawlproject/pawl/cmd/pawl/internal/doctor"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/internal/testwait"
)

// examined runs pawl doctor on servers, and returns the exit code and what needs a hand
// as "LEVEL CHECK WHERE: TEXT". A data folder in memory is no matter here: it is where
// the machine has its temporary files.
func examined(t *testing.T, servers []*server, args ...string) (code int, found []string) {
	t.Helper()
	var links []string
	for _, s := range servers {
		links = append(links, s.link)
	}
	r := finish(t, pawlCommand(t, bound, append([]string{"doctor", "--json", "--servers", strings.Join(links, ",")}, args...)...))
	if r.stdout == "" {
		t.Fatal(r)
	}
	code = r.code
	for _, f := range read[struct{ Findings []doctor.Finding }](t, r.stdout).Findings {
		switch {
		case f.Level == doctor.OK:
		case f.Check == "folder":
			if code == 1 {
				code = 0
			}
		default:
			found = append(found, f.Level+" "+f.Check+" "+f.Where+": "+f.Text)
		}
	}
	if len(found) > 0 && code == 0 {
		code = r.code
	}
	return code, found
}

// finds waits until doctor ends with a code and finds these parts, each in a line.
func finds(t *testing.T, servers []*server, code int, parts ...string) {
	t.Helper()
	what := fmt.Sprintf("doctor ends with %d and finds %q", code, parts)
	last := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what doctor found last: %s", last)
		}
	})
	testwait.Until(t, bound, what, func() bool {
		got, found := examined(t, servers)
		last = fmt.Sprintf("%d\n%s", got, strings.Join(found, "\n"))
		for _, part := range parts {
			if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, part) }) {
				return false
			}
		}
		return got == code && (code != 0 || len(found) == 0)
	})
}

// Three servers are well. One is killed, and then all; one is frozen. Each is found, and
// the command ends within its bound.
func TestDoctorOnThreeServers(t *testing.T) {
	wholly(t)
	q := newQuorum(t, 3)
	q.up()
	n1 := q.servers[0]
	q.voters(n1, "n1", "n2", "n3")
	finds(t, q.servers, 0)
	// The active server is asked, too, also where it is not named.
	contains(t, n1.want(1, "doctor").stdout, "not in --servers", "name all servers in PAWL_SERVERS")

	n3 := q.servers[2]
	n3.stop(syscall.SIGKILL)
	finds(t, q.servers, 1, "error reach "+n3.link, "error members n3: does not answer n1, n2", "error quorum cell: no member may be lost: 2 of 3")
	n3.launch()
	q.ready(n3)
	finds(t, q.servers, 0)

	n3.pause()
	began := clock.Boottime()
	code, found := examined(t, q.servers)
	if took := clock.Boottime() - began; took > 15*time.Second {
		t.Errorf("with a server that is frozen it took %v", took)
	}
	if code != 1 || !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, "error reach "+n3.link) }) {
		t.Errorf("a frozen server: %d %q", code, found)
	}
	for _, s := range q.servers[1:] {
		s.stop(syscall.SIGKILL)
	}
	finds(t, q.servers, 1, "error leader cell: no member leads", "error quorum cell: 1 of 3 members answer")
	n1.stop(syscall.SIGKILL)
	if code, found := examined(t, q.servers); code != 69 || len(found) != 3 {
		t.Errorf("nobody answers: %d %q", code, found)
	}
}

// The certificates of the peers and of the link are told before they end, and so are
// those that have ended: the server cannot be reached then, and doctor says why.
func TestDoctorFindsCertificatesThatEnd(t *testing.T) {
	wholly(t)
	dir := t.TempDir()
	peers, link := testcert.New(t, dir, "peers"), testcert.New(t, dir, "links")
	until := func(left time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = clock.System().Wall().Add(-48*time.Hour), clock.System().Wall().Add(left)
		}
	}
	pc, pk := peers.Issue("n1", until(10*24*time.Hour+time.Hour))
	lc, lk := link.Issue("link", until(100*24*time.Hour))
	q := &quorum{t: t, peers: []string{"n1=https://" + freeAddress(t)}}
	s := q.server("n1", q.peers, "--peer-cert", pc, "--peer-key", pk, "--peer-ca", peers.File, "--tls-cert", lc, "--tls-key", lk)
	q.servers = []*server{s}
	s.launch()
	testwait.Until(t, bound, "it is ready", func() bool { return strings.Contains(s.said(), `"msg":"ready"`) })
	code, found := examined(t, q.servers, "--ca", link.File)
	text := strings.Join(found, "\n")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	contains(t, text, "warn certificates n1 ("+s.link+"): its certificate among peers CN=n1 in "+pc+" ends in 10 days",
		"error certificates n1 ("+s.link+"): its authority of peers CN=peers in "+peers.File+" ends in 0 days", "its authority links ends in 0 days")
	if strings.Contains(text, "its certificate link") {
		t.Errorf("a certificate that is good for long:\n%s", text)
	}

	link.Issue("link", until(-time.Hour))
	testwait.Until(t, bound, "the server shows the one that has ended", func() bool {
		code, found = examined(t, q.servers, "--ca", link.File)
		return code == 69
	})
	contains(t, strings.Join(found, "\n"), "error reach "+s.link, "error certificates "+s.link+": its certificate link has ended on")
}

// An etcd of others: all well, an alarm, a member that is killed.
func TestDoctorOnEtcd(t *testing.T) {
	wholly(t)
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	a, b := two(t, c)
	servers := []*server{a, b}
	finds(t, servers, 0)
	client := etcdClient(t, c.Members[0].Endpoint())
	alarm := func(action pb.AlarmRequest_AlarmAction) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		st, err := client.Status(ctx, c.Members[0].Endpoint())
		if err == nil {
			_, err = pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
				Action: action, MemberID: st.Header.MemberId, Alarm: pb.AlarmType_NOSPACE,
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	alarm(pb.AlarmRequest_ACTIVATE)
	finds(t, servers, 1, "error alarms ", "NOSPACE")
	alarm(pb.AlarmRequest_DEACTIVATE)
	finds(t, servers, 0)
	c.Members[2].Kill()
	finds(t, servers, 1, "error endpoints "+c.Members[2].Address()+": cannot be reached", "error quorum cell: no member may be lost: 2 of 3 endpoints")
}
