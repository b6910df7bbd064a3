package server

import (
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testcert"
)

func listening(t *testing.T, at string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestAdvertisedAddresses(t *testing.T) {
	d := &listeners{link: listening(t, "0.0.0.0:0"), http: listening(t, "0.0.0.0:0")}
	narrow := &listeners{link: d.link, http: listening(t, "127.0.0.1:0")}
	port := func(l net.Listener) string {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		return port
	}
	for _, tc := range []struct {
		doors      *listeners
		link, http string
		expected   addresses
	}{
		{d, "locks.example", "", addresses{"locks.example:" + port(d.link), "locks.example:" + port(d.http)}},
		{d, "locks.example:17", "web.example", addresses{"locks.example:17", "web.example:" + port(d.http)}},
		{d, "[2001:db8::1]:17", "2001:db8::2", addresses{"[2001:db8::1]:17", "[2001:db8::2]:" + port(d.http)}},
		// An HTTP interface for this machine alone stays one.
		{narrow, "locks.example:17", "", addresses{"locks.example:17", narrow.http.Addr().String()}},
		{&listeners{}, "", "", addresses{}},
	} {
		if got := advertised(tc.doors, Options{AdvertiseLink: tc.link, AdvertiseHTTP: tc.http}); got != tc.expected {
			t.Errorf("told %q and %q: %+v, expected %+v", tc.link, tc.http, got, tc.expected)
		}
	}
}

func TestCheckAdvertised(t *testing.T) {
	for told, good := range map[string]bool{
		"": true, "locks.example": true, "locks.example:7420": true, "10.0.0.1": true, "::1": true, "[::1]:7420": true,
		":7420": false, "a/b": false, "https://a": false, "a b": false, "a:0": false, "a:x": false, "0.0.0.0:7420": false, "[::]": false,
		"[fe80::1%eth0]:7420": false, "fe80::1%eth0": false, "fe80::1": false,
	} {
		if err := CheckAdvertised("--advertise", told, "127.0.0.1:0"); (err == nil) != good {
			t.Errorf("%q: %v", told, err)
		}
	}
	if CheckAdvertised("--advertise", "a", Off) == nil || CheckAdvertised("--advertise", "", Off) != nil {
		t.Error("what is told of a listener that is off is checked wrongly")
	}
}

// Whatever clients are sent to is answered for, and whatever the certificate is
// for; a name that somebody else has lead here is not.
func TestAcceptedHosts(t *testing.T) {
	dir := t.TempDir()
	cert, key := testcert.New(t, dir, "ca").Issue("server", nil, "locks.example", "*.cell.example")
	c, err := loadCertificates(Files{Cert: cert, Key: key}, clock.System(), slog.New(slog.DiscardHandler), access.NewGate(nil))
	if err != nil {
		t.Fatal(err)
	}
	d := &listeners{link: listening(t, "0.0.0.0:0"), http: listening(t, "0.0.0.0:0")}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	untold, told := Options{}, Options{AdvertiseLink: "link.test:1", AdvertiseHTTP: "web.test:2", HTTPHosts: []string{"further.test", "proxied.test:443"}}
	plain, secured := &security{}, &security{certs: c}
	for _, tc := range []struct {
		o        Options
		s        *security
		host     string
		answered bool
	}{
		{untold, plain, name + ":7421", true},
		{untold, plain, "localhost", true},
		{untold, plain, "locks.example:7421", false},
		{untold, plain, "evil.test", false},
		{untold, secured, "locks.example:7421", true},
		{untold, secured, "LOCKS.example.", true},
		{untold, secured, "a.cell.example", true},
		{untold, secured, "evil.test", false},
		{untold, secured, "a.b.cell.example", false},
		{untold, secured, "locks.example.evil.test", false},
		{untold, secured, "", false},
		{told, plain, "link.test", true},
		{told, plain, "web.test:2", true},
		{told, plain, "further.test", true},
		{told, plain, "proxied.test", true},
		{told, plain, "evil.test", false},
	} {
		if got := answersFor(d, tc.o, tc.s)(tc.host); got != tc.answered {
			t.Errorf("host %q with %+v, TLS %t: answered %t", tc.host, tc.o, tc.s.certs != nil, got)
		}
	}
}

// A certificate that is not for where clients are sent to is warned about at the
// start of a server that others stand by for.
func TestCertificateForOtherHostIsWarnedAbout(t *testing.T) {
	dir := t.TempDir()
	cert, key := testcert.New(t, dir, "ca").Issue("server", func(c *x509.Certificate) { c.IPAddresses = nil }, "locks.example")
	for at, warned := range map[addresses]bool{
		{"locks.example:1", "locks.example:2"}: false,
		{"locks.example:1", ""}:                false,
		{"vm:1", "locks.example:2"}:            true,
		{"locks.example:1", "127.0.0.1:2"}:     true,
	} {
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(&said, nil))
		c, err := loadCertificates(Files{Cert: cert, Key: key}, clock.System(), log, access.NewGate(nil))
		if err != nil {
			t.Fatal(err)
		}
		s := &security{certs: c, log: log}
		s.checkNames(at, Options{Store: StoreEtcd})
		if got := strings.Contains(said.String(), "they will refuse it"); got != warned {
			t.Errorf("%+v: %q", at, said.String())
		}
		if warned && !strings.Contains(said.String(), "locks.example localhost") {
			t.Errorf("it does not say what the certificate is for: %q", said.String())
		}
	}
}
