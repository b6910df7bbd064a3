package sdk

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
)

// certificate makes one for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, pool
}

// C57: a connection that is not what it should be is an error, and never a yes.
func TestTLS(t *testing.T) {
	cert, pool := certificate(t)
	address, _, stop := tcpServer(t, &tls.Config{Certificates: []tls.Certificate{cert}})
	defer stop()

	c, err := pawl.Dial(t.Context(), []string{address}, pawl.Options{TLS: &tls.Config{RootCAs: pool}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Acquire(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]pawl.Options{
		"no TLS":          {},
		"unknown signer":  {TLS: &tls.Config{RootCAs: x509.NewCertPool()}},
		"of another name": {TLS: &tls.Config{RootCAs: pool, ServerName: "elsewhere"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		c, err := pawl.Dial(ctx, []string{address}, o)
		cancel()
		if c != nil || !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}
