package etcdstore

import (
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/peerconn"
	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/internal/testwait"
)

// A learner that has never started, and so has no name in the cluster, is removed by the
// name that it is expected by, and one that nobody expects by its address.
func TestQuorumNamelessLearnerIsRemoved(t *testing.T) {
	q := foundQuorum(t, 1)[0]
	const at, stray = "http://127.0.0.1:1", "http://127.0.0.1:2"
	if err := q.AddMember(t.Context(), "n2", at, ""); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{at, stray} {
		urls, err := types.NewURLs([]string{url})
		if err != nil {
			t.Fatal(err)
		}
		now := q.opts.Clock.Wall()
		if _, err := q.etcd.Server.AddMember(t.Context(), *membership.NewMemberAsLearner("", urls, "", &now)); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"n2", stray} {
		if err := q.RemoveMember(t.Context(), name); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
		if n := len(membersOf(q.etcd)); n != 2-i {
			t.Errorf("after %s was removed there are %d members", name, n)
		}
	}
	if x, _ := q.peers.expects(q.etcd, "n2"); !x.Removed {
		t.Errorf("it may join again: %+v", x)
	}
}

// The certificate of a member that was removed opens nothing any more. It is told that
// it was removed.
func TestQuorumRemovedMemberIsNoPeer(t *testing.T) {
	ca := testcert.New(t, t.TempDir(), "peers")
	ip := map[string]string{"n1": "127.0.0.1", "n2": "127.0.0.2", "n3": "127.0.0.3"}
	all := foundQuorum(t, 3, func(o *QuorumOptions) {
		own := ip[o.Node]
		_ = o.Listener.Close()
		*o = again(t, *o, own+":0")
		cert, key := ca.Issue(o.Node, func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{net.ParseIP(own)} })
		o.TLS = peerconn.Files{Cert: cert, Key: key, CA: ca.File}
		o.Peers = []Peer{{o.Node, "https://" + o.Listener.Addr().String()}}
	})
	n1, n2, n3 := all[0], all[1], all[2]
	removed := n3.Own()
	ask := func(by *Quorum, method, path string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, n1.peers.own().URL+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := by.peers.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for _, by := range all {
		if code := ask(by, http.MethodGet, "/raft/probing"); code != http.StatusOK {
			t.Errorf("%s asks as a member: %d", by.opts.Node, code)
		}
	}
	testwait.Until(t, bound, "n3 is removed", func() bool { return n1.RemoveMember(t.Context(), "n3") == nil })
	for _, c := range [][2]string{
		{http.MethodGet, "/raft/probing"},
		{http.MethodGet, "/members"},
		{http.MethodPost, pathJoin},
		{http.MethodPost, pathLead},
	} {
		if code := ask(n3, c[0], c[1]); code != http.StatusGone {
			t.Errorf("a member that was removed asks %s: %d", c[1], code)
		}
	}
	// It has joined again as another member, which n1 has not learned yet: etcd would end it.
	for id, code := range map[uint64]int{removed: http.StatusGone, removed + 1: http.StatusServiceUnavailable} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n1.peers.own().URL+"/raft", strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Server-From", types.ID(id).String())
		res, err := n3.peers.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != code {
			t.Errorf("the member %x at the host of one that was removed: %d, expected %d", id, res.StatusCode, code)
		}
	}
	a, err := n3.peers.ask(t.Context(), n1.peers.own().URL, removed)
	if err != nil || !a.Removed || len(a.Members) != 0 || a.Applied != 0 {
		t.Errorf("it is told %+v, %v", a, err)
	}
	if code := ask(n2, http.MethodGet, "/raft/probing"); code != http.StatusOK {
		t.Errorf("a member that is left asks: %d", code)
	}
}
