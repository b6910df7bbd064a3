package reach

import (
	"fmt"
	"net"
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
}

func (e *Error) Error() string {
	if e.Other {
		return "what answers at " + e.Server + " is no pawl link: " + e.Why
	}
	return "no server answers at " + e.Server + ": " + e.Why
}

const (
	noConnection = `connection error: desc = "`
	dialling     = "transport: Error while dialing: "
	noPreface    = "error reading server preface: "
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
	text = strings.TrimSuffix(text, `"`)
	if strings.Contains(text, "HTTP/1.1 header") {
		return &Error{
			Server: server, Other: true,
			Why: "it looks like the HTTP port; the link has a port of its own, 7420 unless \"serve --listen\" says otherwise",
		}
	}
	if why, ok := strings.CutPrefix(text, noPreface); ok {
		return &Error{Server: server, Why: "the connection was taken and closed again (" + why + ")"}
	}
	return &Error{Server: server, Why: plain(server, strings.TrimPrefix(text, dialling))}
}

// plain leaves of the text of a failed dial what whoever typed the address wants
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
	if err == nil && bad == nil && n > 0 && host != "" && !strings.ContainsAny(host, "/ ") {
		return nil
	}
	return fmt.Errorf("%q is no address of a server; host:port was expected, such as 127.0.0.1:7420", address)
}
