package endtoend

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/internal/testwait"
)

// Peers prove themselves to each other: a caller without a certificate, with one of
// another authority, or with one for no peer's host is refused, and so is a server
// whose certificate is not for its own host. New files are used without a restart.
func TestQuorumPeersProveThemselves(t *testing.T) {
	wholly(t)
	dir := t.TempDir()
	ca := testcert.New(t, dir, "peers")
	q := &quorum{t: t}
	for _, name := range []string{"n1", "n2", "n3"} {
		q.peers = append(q.peers, name+"=https://"+freeAddress(t))
	}
	elsewhere := func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"elsewhere.example"} }
	for _, name := range []string{"n1", "n2", "n3"} {
		change := elsewhere
		if name != "n3" {
			change = nil
		}
		cert, key := ca.Issue(name, change)
		q.servers = append(q.servers, q.server(name, q.peers, "--peer-cert", cert, "--peer-key", key, "--peer-ca", ca.File))
	}
	n1, n2, n3 := q.servers[0], q.servers[1], q.servers[2]
	for _, s := range q.servers {
		s.launch()
	}
	// The founder waits for an answer of n3, which it does not believe.
	testwait.Until(t, bound, "the founder waits for n3", func() bool {
		return strings.Contains(n1.said(), "n3 (this server founds the cluster when all others have answered")
	})
	testwait.Until(t, bound, "n3 refuses nobody and is believed by nobody", func() bool { return strings.Contains(n3.said(), "the member waits") })
	ca.Issue("n3", nil)
	for _, s := range q.servers {
		q.ready(s)
	}
	q.voters(n1, "n1", "n2", "n3")

	own, ownKey := ca.Issue("stranger", elsewhere)
	other := testcert.New(t, dir, "other")
	foreign, foreignKey := other.Issue("foreign", nil)
	_, at, _ := strings.Cut(q.peers[0], "=")
	for what, files := range map[string][2]string{
		"no certificate":                     {},
		"a certificate of another authority": {foreign, foreignKey},
		"a certificate that is for no peer":  {own, ownKey},
		"":                                   {dir + "/n2.cert.pem", dir + "/n2.key.pem"},
	} {
		for _, path := range []string{"/pawl/v1/member", "/members", "/raft/probing"} {
			code, err := askPeer(t, at+path, ca.File, files)
			switch {
			case what == "" && (err != nil || code != http.StatusOK):
				t.Errorf("a peer asks %s: %d %v", path, code, err)
			case what != "" && err == nil:
				t.Errorf("with %s %s answers %d", what, path, code)
			}
		}
	}

	// A new certificate for a member that is started again.
	g := granting(t, q.dial(20*time.Second), "turn")
	ca.Issue("n2", nil)
	n2.stop(syscall.SIGTERM)
	g.more(10, "grants without n2")
	n2.launch()
	q.ready(n2)
	q.voters(n1, "n1", "n2", "n3")
}

// askPeer asks at the peers' address with a certificate of these files.
func askPeer(t *testing.T, url, ca string, files [2]string) (int, error) {
	t.Helper()
	pool := x509.NewCertPool()
	raw, err := os.ReadFile(ca)
	if err != nil || !pool.AppendCertsFromPEM(raw) {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if files[0] != "" {
		pair, err := tls.LoadX509KeyPair(files[0], files[1])
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	c := &http.Client{Timeout: bound, Transport: &http.Transport{TLSClientConfig: config, DialContext: new(net.Dialer).DialContext}}
	defer c.CloseIdleConnections()
	res, err := c.Get(url)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
