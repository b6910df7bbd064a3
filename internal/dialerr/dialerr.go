package dialerr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error: there is no connection to a server, and what was to be sent on it was
// not.
type Error struct {
	Server string
	// Why begins with what happened at the server's address.
	Why string
	// Other: something answers there that does not speak our protocol.
	Other bool
	// Insecure: a server answers, and TLS with it fails.
	Insecure bool
	// Closed: the connection was taken and closed again, as a server does that
	// speaks TLS with a peer that does not.
	Closed bool
	// By is the server that sent the caller here; empty: it came by itself.
	By string
	// Silent: something takes connections there, or swallows them, and says
	// nothing for as long as it was waited for.
	Silent bool
}

// SaysNothing is why a silent server counts as not there.
const SaysNothing = "nothing comes back on a connection to it"

func (e *Error) Error() string {
	if e.By == "" {
		return e.text()
	}
	return e.text() + "; the server at " + e.By + " named this one as the active server (its \"serve --advertise\" says which address is named)"
}

func (e *Error) text() string {
	if _, port, err := net.SplitHostPort(e.Server); err == nil && port == peerPort && !e.Other {
		return e.what() + "; " + peerPort + " is usually the port for peers (\"serve --peers\"), and clients take that of the link, 7420 unless \"serve --listen\" says otherwise"
	}
	return e.what()
}

// peerPort is the port for peers in all examples.
const peerPort = "7422"

func (e *Error) what() string {
	if e.Other {
		return "what answers at " + e.Server + " is no pawl link: " + e.Why
	}
	if e.Insecure {
		return "no TLS with the server at " + e.Server + ": " + e.Why
	}
	return "no server answers at " + e.Server + ": " + e.Why
}

const (
	noConnection = `connection error: desc = "`
	dialling     = "transport: Error while dialing: "
	noHandshake  = "transport: authentication handshake failed: "
	noPreface    = "error reading server preface: "
	alert        = "remote error: tls: "
)

// Of explains the error of a call or a stream that failed for want of a
// connection to server; nil: it is another error.
func Of(server string, err error) *Error {
	if err == nil || status.Code(err) != codes.Unavailable {
		return nil
	}
	text, ok := strings.CutPrefix(status.Convert(err).Message(), noConnection)
	if !ok {
		return nil
	}
	if whole, err := strconv.Unquote(`"` + text); err == nil {
		text = whole // gRPC quotes it, and what is quoted within
	} else {
		text = strings.TrimSuffix(text, `"`)
	}
	if strings.Contains(text, "HTTP/1.1 header") {
		return &Error{
			Server: server, Other: true,
			Why: "it looks like the HTTP port, or the one for peers (\"serve --peers\"); the link has a port of its own, 7420 unless \"serve --listen\" says otherwise",
		}
	}
	if silent(text) {
		return &Error{Server: server, Silent: true, Why: SaysNothing}
	}
	if why, ok := strings.CutPrefix(text, noPreface); ok && strings.HasPrefix(why, alert) {
		// The client has shaken hands before the server has looked at its certificate.
		return &Error{Server: server, Insecure: true, Why: Handshake(why)}
	} else if ok {
		return &Error{Server: server, Closed: true, Why: "the connection was taken and closed again (" + why + "); perhaps the server speaks TLS"}
	}
	if why, ok := strings.CutPrefix(text, noHandshake); ok {
		return &Error{Server: server, Insecure: true, Why: Handshake(why)}
	}
	return &Error{Server: server, Why: plain(server, strings.TrimPrefix(text, dialling))}
}

// silent reports whether a connection was given up for want of time.
func silent(text string) bool {
	for _, sign := range []string{"use of closed network connection", "deadline exceeded", "i/o timeout"} {
		if strings.HasSuffix(text, sign) {
			return true
		}
	}
	return false
}

// Handshake says what why, crypto/tls's text about a handshake with a server that
// failed, means to an operator; a text that it does not know it returns as it is.
func Handshake(why string) string {
	why = strings.TrimPrefix(why, "tls: failed to verify certificate: ")
	switch said, theirs := strings.CutPrefix(why, alert); {
	case theirs && said == "certificate required":
		return "it asks for a client certificate, and none was shown (" + why + ")"
	case theirs && said == "bad certificate":
		return "it asks for a client certificate, and none that it takes was shown (" + why + ")"
	case theirs && strings.Contains(said, "certificate"):
		return "it does not take the client certificate that was shown (" + why + ")"
	case strings.Contains(why, "first record does not look like a TLS handshake"):
		return "it does not speak TLS"
	case strings.Contains(why, "unknown authority"):
		return "its certificate is of an unknown authority (" + why + ")"
	}
	return why
}

// plain leaves of the text of a failed dial what the user needs
// to know.
func plain(server, text string) string {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = server
	}
	if strings.Contains(text, "no such host") {
		return fmt.Sprintf("the host name %q cannot be resolved", host)
	}
	if _, lookup, ok := strings.Cut(text, "lookup "); ok {
		return fmt.Sprintf("the host name %q could not be looked up (%s)", host, last(lookup))
	}
	return last(text)
}

// last is the innermost cause: "dial tcp 127.0.0.1:1: connect: connection refused".
func last(text string) string {
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}

// CheckAddress says what is wrong with the address of a server.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 {
		return fmt.Errorf("%q is no address of a server; host:port was expected, such as 127.0.0.1:7420", address)
	}
	if err := CheckHost(host); err != nil {
		return fmt.Errorf("%q is no address of a server: %w; host:port was expected, such as 127.0.0.1:7420", address, err)
	}
	return nil
}

// CheckHost says what is wrong with the host of an address, a name or an IP address.
// No connection comes about with a link-local IPv6 address: without a zone it names no
// interface, and one with a zone is not good for certificates, nor on other machines.
func CheckHost(host string) error {
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && (ip.Zone() != "" || ip.Is6() && ip.IsLinkLocalUnicast()):
		return errors.New("a link-local address is good for one interface of one machine; another address of it was expected, or its name")
	case err == nil && ip.IsMulticast():
		return errors.New("a multicast address is nobody's")
	case host == "":
		return errors.New("the host is missing")
	case err != nil && strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`/?#%@[]\:*"`, r) }):
		return errors.New("no host has such a name")
	}
	return nil
}
