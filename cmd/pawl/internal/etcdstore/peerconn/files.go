package peerconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/client/pkg/v3/transport"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/infile"
)

// Files are the paths of what a member proves itself to its peers by, and of the
// authorities that peers are verified with. All or none of them are set.
type Files struct{ Cert, Key, CA string }

// On reports whether peers speak TLS.
func (f Files) On() bool { return f.Cert != "" }

// TLS has the files read again for every handshake. While they cannot be used, those that
// were read last stay in force. The nil TLS is that of peers that speak in the clear: it
// has Info alone.
type TLS struct {
	files Files
	clock clock.Clock
	log   *slog.Logger
	now   atomic.Pointer[material]
}

type material struct {
	cert tls.Certificate
	pool *x509.CertPool
}

// Load reads the files for the first time. It fails where they cannot be used, and
// returns nil without files.
func Load(files Files, k clock.Clock, log *slog.Logger) (*TLS, error) {
	if !files.On() {
		return nil, nil
	}
	p := &TLS{files: files, clock: k, log: log}
	m, err := p.read()
	if err != nil {
		return nil, fmt.Errorf("TLS among peers: %w", err)
	}
	p.now.Store(m)
	return p, nil
}

func (p *TLS) read() (*material, error) {
	var raw [3][]byte
	for i, path := range []string{p.files.Cert, p.files.Key, p.files.CA} {
		var err error
		if raw[i], _, err = infile.Read(path, infile.BytesMax, p.clock.Wall()); err != nil {
			return nil, err
		}
	}
	m := &material{pool: x509.NewCertPool()}
	var err error
	if m.cert, err = tls.X509KeyPair(raw[0], raw[1]); err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", p.files.Cert, p.files.Key, err)
	}
	if !m.pool.AppendCertsFromPEM(raw[2]) {
		return nil, fmt.Errorf("authorities: %s: no certificate", p.files.CA)
	}
	return m, nil
}

// fresh reads the files again.
func (p *TLS) fresh() *material {
	m, err := p.read()
	if err != nil {
		p.log.Error("TLS among peers: the new files cannot be used; the server goes on with those it had", "error", err)
		return p.now.Load()
	}
	p.now.Store(m)
	return m
}

var errName = errors.New("its certificate is for no host of a known peer")

// Server is the configuration of the peers' listener. A caller needs a certificate of
// the authorities that is for one of the hosts.
func (p *TLS) Server(hosts func() []string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			m := p.fresh()
			return &tls.Config{
				MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
				Certificates: []tls.Certificate{m.cert}, SessionTicketsDisabled: true,
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: m.pool,
				VerifyConnection: func(s tls.ConnectionState) error {
					leaf := s.PeerCertificates[0]
					for _, host := range hosts() {
						if leaf.VerifyHostname(host) == nil {
							return nil
						}
					}
					p.log.Warn("a caller at the peers' address was refused", "error", errName, "certificate", Hosts(leaf))
					return errName
				},
			}, nil
		},
	}
}

// Hosts are the hosts that a certificate is for, for people.
func Hosts(c *x509.Certificate) string {
	hosts := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return strings.Join(hosts, " ")
}

// Client is the configuration of a connection to a peer.
func (p *TLS) Client(host string) *tls.Config {
	m := p.fresh()
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, ServerName: host,
		RootCAs: m.pool, Certificates: []tls.Certificate{m.cert},
	}
}

// Info is the same for etcd's own connections. It reads the certificate again for
// every one, and the authorities when it starts.
func (p *TLS) Info() transport.TLSInfo {
	if p == nil {
		return transport.TLSInfo{}
	}
	return transport.TLSInfo{CertFile: p.files.Cert, KeyFile: p.files.Key, TrustedCAFile: p.files.CA, ClientCertAuth: true}
}
