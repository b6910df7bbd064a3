package server

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/bearer"
	"github.com/pawlproject/pawl/internal/dialerr"
)

// addresses are where clients are sent to while this server is the active one;
// empty: nowhere.
type addresses struct{ link, http string }

// CheckAdvertised refuses what no client could be sent to: told is what a flag
// says, listens the address that it stands for. An empty one says nothing.
func CheckAdvertised(flag, told, listens string) error {
	if told == "" {
		return nil
	}
	if listens == Off {
		return fmt.Errorf("%s is %q, and nothing listens there", flag, told)
	}
	host, port := splitAdvertised(told)
	if port == "" {
		port = "1"
	}
	ip, err := netip.ParseAddr(host)
	if dialerr.CheckAddress(net.JoinHostPort(host, port)) != nil || err == nil && ip.IsUnspecified() {
		return fmt.Errorf("%s is %q; expected a host that clients reach, or host:port, such as locks.example:7420", flag, told)
	}
	return nil
}

// splitAdvertised takes host:port apart, or a host alone.
func splitAdvertised(told string) (host, port string) {
	if host, port, err := net.SplitHostPort(told); err == nil {
		return host, port
	}
	return strings.Trim(told, "[]"), ""
}

// advertised determines where clients are sent to.
func advertised(d *listeners, o Options) addresses {
	web := o.AdvertiseHTTP
	if web == "" && o.AdvertiseLink != "" && d.http != nil {
		// A loopback is nobody else's to reach, whatever the link is called.
		if host, _, err := net.SplitHostPort(d.http.Addr().String()); err == nil && !bearer.Loopback(host) {
			web, _ = splitAdvertised(o.AdvertiseLink)
		}
	}
	return addresses{advertisedAddress(d.link, o.AdvertiseLink), advertisedAddress(d.http, web)}
}

// advertisedAddress is the address at which others reach a listener. configured is the
// address that the operator advertises; without a port it gets the listener's. If
// configured is empty, a listener on every address is reached by the name of this host.
func advertisedAddress(l net.Listener, configured string) string {
	if l == nil {
		return ""
	}
	a := l.Addr().String()
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return a
	}
	if configured != "" {
		to, at := splitAdvertised(configured)
		if at == "" {
			at = port
		}
		return net.JoinHostPort(to, at)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return net.JoinHostPort(name, port)
		}
	}
	return a
}

// answersFor says which Host headers are accepted: those of HostCheck, the hosts that
// clients are sent to, and those of the certificate. A page of another site whose name
// resolves to this server sends that name. It is none of these, since nobody issues a
// certificate of that name for our key.
func answersFor(d *listeners, o Options, s *security) func(host string) bool {
	at := advertised(d, o)
	var names []string
	for _, a := range append([]string{at.link, at.http}, o.HTTPHosts...) {
		if host, _ := splitAdvertised(a); host != "" {
			names = append(names, host)
		}
	}
	known := rest.HostCheck(d.http.Addr().String(), names)
	return func(host string) bool {
		if known(host) {
			return true
		}
		name, _ := splitAdvertised(host)
		return s.certs != nil && s.certs.isFor(name)
	}
}

// isFor reports whether the present certificate is for a host.
func (c *certificates) isFor(host string) bool {
	leaf := c.now.Load().cert.Leaf
	return host != "" && leaf != nil && leaf.VerifyHostname(host) == nil
}

// checkNames warns when clients will be sent to a host that the certificate is not
// for: they would not come.
func (s *security) checkNames(at addresses, o Options) {
	if s.certs == nil || o.Store != StoreEtcd && o.Store != StoreQuorum {
		return // nobody is sent anywhere
	}
	for _, to := range []struct{ flag, address string }{{"--advertise", at.link}, {"--advertise-http", at.http}} {
		host, _ := splitAdvertised(to.address)
		if to.address != "" && !s.certs.isFor(host) {
			s.log.Warn("TLS: the certificate is not for the host that clients are sent to; they will refuse it",
				"host", host, "certificate", namesOf(s.certs.now.Load().cert.Leaf), "flag", to.flag)
		}
	}
}

// namesOf are the hosts that a certificate is for.
func namesOf(leaf *x509.Certificate) string {
	if leaf == nil {
		return ""
	}
	names := append([]string(nil), leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return strings.Join(names, " ")
}
