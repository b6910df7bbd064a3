package server

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// Off switches a listener off.
const Off = "off"

// CheckAddress refuses what is no host:port, and anything but the loopback
// unless insecure. The name of the flag goes into the error.
func CheckAddress(flag, address string, insecure bool) error {
	if address == Off {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return fmt.Errorf("%s is %q; expected host:port, such as 127.0.0.1:7420, or %q", flag, address, Off)
	}
	if insecure || loopback(host) {
		return nil
	}
	return fmt.Errorf("%s is %s, which others can reach: without TLS and an auth file only the loopback is allowed; "+
		"--insecure says that whoever can reach it may do everything", flag, address)
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// reachedAt is where others reach a listener: a listener on every address is
// reached by this host's name.
func reachedAt(l net.Listener) string {
	if l == nil {
		return ""
	}
	a := l.Addr().String()
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return a
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return net.JoinHostPort(name, port)
		}
	}
	return a
}
