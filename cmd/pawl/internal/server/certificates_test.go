package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/internal/testwait"
)

// secured is a listener with a server's certificates, on which handshakes are
// made and nothing is said.
type secured struct {
	*certificates
	t       *testing.T
	address string
}

func newSecured(t *testing.T, files Files) *secured {
	t.Helper()
	c, err := loadCertificates(files, clock.System(), slog.New(slog.DiscardHandler), access.NewGate(nil))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.config("h2"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if conn.(*tls.Conn).Handshake() == nil {
					_, _ = io.WriteString(conn, "hello")
				}
			}()
		}
	}()
	return &secured{c, t, l.Addr().String()}
}

// shake makes a handshake and reads on, since a server says only then what it
// thinks of a client's certificate.
func (s *secured) shake(authority string, change func(*tls.Config)) (tls.ConnectionState, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		s.t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", NextProtos: []string{"h2"}}
	config.RootCAs.AppendCertsFromPEM(pem)
	if change != nil {
		change(config)
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 30 * time.Second}, "tcp", s.address, config)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	_, err = io.ReadAll(conn)
	return conn.ConnectionState(), err
}

func serialOf(state tls.ConnectionState) string {
	if len(state.PeerCertificates) == 0 {
		return ""
	}
	return state.PeerCertificates[0].SerialNumber.String()
}

func TestVersionsOfTLS(t *testing.T) {
	dir := t.TempDir()
	ca := testcert.New(t, dir, "ca")
	cert, key := ca.Issue("server", nil)
	s := newSecured(t, Files{Cert: cert, Key: key})
	state, err := s.shake(ca.File, nil)
	if err != nil || state.Version != tls.VersionTLS13 {
		t.Errorf("by default: %x, %v", state.Version, err)
	}
	for version, ok := range map[uint16]bool{tls.VersionTLS12: true, tls.VersionTLS11: false, tls.VersionTLS10: false} {
		_, err := s.shake(ca.File, func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version })
		if (err == nil) != ok {
			t.Errorf("version %x: %v", version, err)
		}
	}
	if _, err := s.shake(testcert.New(t, dir, "other").File, nil); err == nil {
		t.Error("a client of another authority believes the server")
	}
}

// New files are shown as soon as they are there; broken ones are not, and what
// was in force goes on.
func TestCertificatesAreReloaded(t *testing.T) {
	dir := t.TempDir()
	ca := testcert.New(t, dir, "ca")
	cert, key := ca.Issue("server", nil)
	s := newSecured(t, Files{Cert: cert, Key: key})
	state, err := s.shake(ca.File, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := serialOf(state)
	ca.Issue("server", nil)
	second := ""
	testwait.Until(t, 30*time.Second, "the new certificate is shown", func() bool {
		state, err := s.shake(ca.File, nil)
		second = serialOf(state)
		return err == nil && second != first
	})
	if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, 30*time.Second, "the broken certificate is found", func() bool {
		if state, err := s.shake(ca.File, nil); err != nil || serialOf(state) != second {
			t.Fatalf("%q instead of %q, %v", serialOf(state), second, err)
		}
		return s.failed.Load() > 0
	})
	if s.Reload() == nil {
		t.Error("it was read")
	}
	if state, err := s.shake(ca.File, nil); err != nil || serialOf(state) != second {
		t.Errorf("%v", err)
	}
	ca.Issue("server", nil)
	if err := s.Reload(); err != nil {
		t.Error(err)
	}
	if state, err := s.shake(ca.File, nil); err != nil || serialOf(state) == second {
		t.Errorf("the mended one is not shown: %v", err)
	}
}

// A client need not have a certificate; one that it has must be good.
func TestClientCertificateIsOptionalButValid(t *testing.T) {
	dir := t.TempDir()
	ca, clients, others := testcert.New(t, dir, "ca"), testcert.New(t, dir, "clients"), testcert.New(t, dir, "others")
	cert, key := ca.Issue("server", nil)
	s := newSecured(t, Files{Cert: cert, Key: key, ClientCA: clients.File})
	present := func(cert, key string) func(*tls.Config) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
	}
	for name, c := range map[string]struct {
		with func(*tls.Config)
		ok   bool
	}{
		"none":                 {nil, true},
		"a good one":           {present(clients.Issue("a", nil)), true},
		"another authority's":  {present(others.Issue("b", nil)), false},
		"the servers' own":     {present(ca.Issue("c", nil)), false},
		"one that has expired": {present(clients.Issue("d", func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Minute) })), false},
		"one for servers":      {present(clients.Issue("e", func(x *x509.Certificate) { x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })), false},
	} {
		if _, err := s.shake(ca.File, c.with); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A client whose authority was removed is refused, on the
// connection that it has, too.
func TestRemovedAuthorityEndsItsConnections(t *testing.T) {
	dir := t.TempDir()
	ca, old := testcert.New(t, dir, "ca"), testcert.New(t, dir, "clients")
	cert, key := ca.Issue("server", nil)
	mine, _ := old.Issue("m", nil)
	pair, err := os.ReadFile(mine)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(pair)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	p, err := access.NewPolicy(access.Entry{Identity: access.NewIdentity("m", access.Limits{}), Certificates: []string{"cn:m"}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSecured(t, Files{Cert: cert, Key: key, ClientCA: old.File})
	s.gate = access.NewGate(p)
	proof := access.Proof{Chain: []*x509.Certificate{leaf}, At: time.Now()}
	c, err := s.gate.Admit(proof)
	if err != nil {
		t.Fatal(err)
	}
	put := make(chan error, 1)
	if _, err := s.gate.Register(c, true, func(why error) { put <- why }); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err != nil || len(put) != 0 {
		t.Errorf("the same authority: %v, %d put out", err, len(put))
	}
	testcert.New(t, dir, "clients")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if len(put) != 1 {
		t.Error("the stream goes on")
	}
	if _, err := s.gate.Admit(proof); err == nil {
		t.Error("the connection goes on")
	}
}

func TestWhichFilesGoTogether(t *testing.T) {
	for f, ok := range map[Files]bool{
		{}:                                   true,
		{Cert: "c", Key: "k"}:                true,
		{Cert: "c", Key: "k", ClientCA: "a"}: true,
		{Cert: "c"}:                          false,
		{Key: "k"}:                           false,
		{ClientCA: "a"}:                      false,
	} {
		if err := f.Check(); (err == nil) != ok {
			t.Errorf("%+v: %v", f, err)
		}
	}
	dir := t.TempDir()
	ca := testcert.New(t, dir, "ca")
	cert, _ := ca.Issue("server", nil)
	_, key := ca.Issue("other", nil)
	for _, f := range []Files{{cert, key, ""}, {cert, cert, ""}, {dir, key, ""}} {
		if _, err := f.read(clock.System().Wall()); err == nil {
			t.Errorf("%+v was read", f)
		}
	}
}
