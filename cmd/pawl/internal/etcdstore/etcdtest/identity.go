package etcdtest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testcert"
)

// Identity is an authority with a certificate for servers on the loopback and
// one for clients, in files.
type Identity struct {
	CA, ServerCert, ServerKey, ClientCert, ClientKey string

	authority *testcert.Authority
}

// NewIdentity founds an authority.
func NewIdentity(t testing.TB) *Identity {
	t.Helper()
	a := testcert.New(t, t.TempDir(), "authority")
	id := &Identity{CA: a.File, authority: a}
	id.ServerCert, id.ServerKey = a.Issue("server", nil)
	id.ClientCert, id.ClientKey = a.Issue("client", nil)
	return id
}

// Expired writes a certificate that is good no more, and its key.
func (id *Identity) Expired() (cert, key string) {
	return id.authority.Issue("expired", func(c *x509.Certificate) { c.NotAfter = clock.System().Wall().Add(-time.Minute) })
}

func (id *Identity) clientConfig() (*tls.Config, error) {
	raw, err := os.ReadFile(id.CA)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(id.ClientCert, id.ClientKey)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(raw)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
