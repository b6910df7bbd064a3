package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/infile"
)

// Files are the paths of a server's certificate, of its key, and of the
// authorities that client certificates are verified with; empty: none.
type Files struct{ Cert, Key, ClientCA string }

// statEvery bounds how often the files are looked at.
const statEvery = time.Second

// certificates are the server's certificate and the authorities for clients. They are
// read again on reload, and when a handshake finds that the files have changed. While
// the new files cannot be used, the old ones stay in force.
type certificates struct {
	files Files
	clock clock.Clock
	log   *slog.Logger
	gate  *access.Gate
	// note writes down what came of reading the files again; nil: nobody does.
	note func(access.AuditRecord)

	now    atomic.Pointer[material]
	failed atomic.Uint64

	mu     sync.Mutex
	looked clock.Reading
	stamps []stamp
}

// material is one reading of the files.
type material struct {
	cert     tls.Certificate
	clients  *x509.CertPool
	clientCA []byte
}

// stamp tells whether a file is the one that was read.
type stamp struct {
	changed time.Time
	size    int64
}

// loadCertificates reads the files for the first time.
func loadCertificates(files Files, k clock.Clock, log *slog.Logger, gate *access.Gate) (*certificates, error) {
	c := &certificates{files: files, clock: k, log: log, gate: gate, looked: k.Now()}
	c.stamps = c.stat()
	m, err := files.read(k.Wall())
	if err != nil {
		return nil, err
	}
	c.now.Store(m)
	return c, nil
}

func (f Files) read(now time.Time) (*material, error) {
	m := &material{}
	cert, _, err := infile.Read(f.Cert, infile.BytesMax, now)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	key, _, err := infile.Read(f.Key, infile.BytesMax, now)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if m.cert, err = tls.X509KeyPair(cert, key); err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	if f.ClientCA == "" {
		return m, nil
	}
	if m.clientCA, _, err = infile.Read(f.ClientCA, infile.BytesMax, now); err != nil {
		return nil, fmt.Errorf("authorities of clients: %w", err)
	}
	if m.clients, err = authorities(m.clientCA); err != nil {
		return nil, fmt.Errorf("authorities of clients: %s: %w", f.ClientCA, err)
	}
	return m, nil
}

// authorities understands a file wholly or not at all: of one that is being
// written the half that is there would put out the clients of the other.
func authorities(text []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	begun := bytes.Count(text, []byte("-----BEGIN "))
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a PEM block %.40q where a certificate was expected", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", n+1, err)
		}
		pool.AddCert(c)
		n++
	}
	switch {
	case bytes.Contains(text, []byte("-----")):
		return nil, fmt.Errorf("what follows certificate %d is cut short or no PEM", n)
	case n == 0:
		return nil, errors.New("no certificate")
	case n != begun:
		return nil, fmt.Errorf("%d of %d certificates are no PEM", begun-n, begun)
	}
	return pool, nil
}

func (c *certificates) stat() []stamp {
	all := make([]stamp, 0, 3)
	for _, path := range []string{c.files.Cert, c.files.Key, c.files.ClientCA} {
		var s stamp
		if st, err := os.Stat(path); err == nil {
			s = stamp{st.ModTime(), st.Size()}
		}
		all = append(all, s)
	}
	return all
}

// reloadIfChanged reads the files again if they have changed since they were read last.
func (c *certificates) reloadIfChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if now.Longer(c.looked) < statEvery {
		return
	}
	c.looked = now
	if stamps := c.stat(); !slices.Equal(stamps, c.stamps) {
		// One that cannot be used is not read again until it changes.
		c.stamps = stamps
		_ = c.read() // it was logged
	}
}

// Reload reads the files again.
func (c *certificates) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stamps = c.stat()
	return c.read()
}

func (c *certificates) read() error {
	m, err := c.files.read(c.clock.Wall())
	if err != nil {
		c.failed.Add(1)
		c.log.Error("TLS: the new files cannot be used; the server goes on with those it had", "error", err)
		c.audit(access.AuditRecord{Verb: "reload", Outcome: "failed", Detail: "TLS: " + err.Error()})
		return err
	}
	old := c.now.Swap(m)
	c.audit(access.AuditRecord{Verb: "reload", Outcome: "done", Detail: "TLS"})
	c.log.Info("TLS: certificates read again", "cert", c.files.Cert)
	if m.clients != nil && string(m.clientCA) != string(old.clientCA) {
		if n := c.gate.Recheck(m.verify); n > 0 {
			c.log.Warn("TLS: streams were ended whose certificates no authority stands for any more", "streams", n)
		}
	}
	return nil
}

func (c *certificates) audit(d access.AuditRecord) {
	if c.note != nil {
		c.note(d)
	}
}

// verify checks a client's certificate once more.
func (m *material) verify(leaf *x509.Certificate, above []*x509.Certificate) error {
	between := x509.NewCertPool()
	for _, a := range above {
		between.AddCert(a)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: m.clients, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

// config is the TLS configuration of a front with one protocol. A client's certificate
// is requested if there are authorities for clients, and must be valid if there is one.
// The gate decides whether a caller must have a certificate or a credential. Sessions
// are not resumed: a resumed session would show a certificate that nobody checked
// again.
func (c *certificates) config(protocol string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{protocol},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c.reloadIfChanged()
			m := c.now.Load()
			t := &tls.Config{
				MinVersion: tls.VersionTLS12, NextProtos: []string{protocol},
				Certificates: []tls.Certificate{m.cert}, SessionTicketsDisabled: true,
			}
			if m.clients != nil {
				t.ClientAuth, t.ClientCAs = tls.VerifyClientCertIfGiven, m.clients
			}
			return t, nil
		},
	}
}

// notAfter is when the present certificate ends, in seconds of Unix time.
func (c *certificates) notAfter() float64 {
	if leaf := c.now.Load().cert.Leaf; leaf != nil {
		return float64(leaf.NotAfter.Unix())
	}
	return 0
}

// Check says what is wrong with which paths are given.
func (f Files) Check() error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("--tls-cert and --tls-key belong together; expected both")
	case f.ClientCA != "" && f.Cert == "":
		return errors.New("--tls-client-ca is given without --tls-cert and --tls-key: certificates of clients need TLS")
	}
	return nil
}

// On reports whether there is TLS.
func (f Files) On() bool { return f.Cert != "" }
