package access

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"strings"
)

// certificateNames are the names that a certificate bears, each with its kind:
// dns:, uri:, email: and ip: for its alternative names, cn: for its common name.
func certificateNames(c *x509.Certificate) []string {
	var all []string
	for _, n := range c.DNSNames {
		all = append(all, "dns:"+n)
	}
	for _, n := range c.URIs {
		all = append(all, "uri:"+n.String())
	}
	for _, n := range c.EmailAddresses {
		all = append(all, "email:"+n)
	}
	for _, n := range c.IPAddresses {
		all = append(all, "ip:"+n.String())
	}
	if n := c.Subject.CommonName; n != "" {
		all = append(all, "cn:"+n)
	}
	return all
}

// CheckCertificateName tells what is wrong with the name of a certificate in a
// policy.
func CheckCertificateName(s string) error {
	kind, name, ok := strings.Cut(s, ":")
	switch {
	case !ok || name == "":
	case kind == "ip":
		if _, err := netip.ParseAddr(name); err == nil {
			return nil
		}
	case kind == "dns", kind == "uri", kind == "email", kind == "cn":
		return nil
	}
	return fmt.Errorf("%.80q is no name of a certificate; expected its kind and the name, such as dns:billing.example or cn:billing", s)
}
