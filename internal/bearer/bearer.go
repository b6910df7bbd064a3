package bearer

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawlproject/pawl/internal/authority"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/infile"
)

// secretMax bounds the bytes of a credential.
const secretMax = 512

// Check tells what is wrong with a credential.
func Check(secret string) error {
	bad := func(r rune) bool { return r <= ' ' || r > '~' }
	if n := len(secret); n < 1 || n > secretMax || strings.ContainsFunc(secret, bad) {
		return fmt.Errorf("the credential has %d bytes; 1 to %d printable ones without blanks were expected", n, secretMax)
	}
	return nil
}

// Read reads a file that holds a credential and nothing else, but for the end of
// the line.
func Read(path string) (string, error) {
	raw, _, err := infile.Read(path, secretMax+3, clock.System().Wall())
	if err != nil {
		return "", fmt.Errorf("credential: %w", err)
	}
	secret := strings.TrimRight(string(raw), "\r\n")
	if err := Check(secret); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return secret, nil
}

// Dialer opens a connection to a server.
type Dialer func(ctx context.Context, server string) (net.Conn, error)

// Exposed says why a credential is not sent to a server; nil: it may be.
func Exposed(server string, secure bool) error {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = server
	}
	if secure || Loopback(host) {
		return nil
	}
	return fmt.Errorf("a credential is sent over TLS or on this machine alone, and %s is neither", server)
}

// Loopback reports whether a host, an address or a name without a port, is this
// machine and nothing that others can listen on or to.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// Options are the dial options for a server: TLS if config is not nil, and the
// credential, if there is one, with every call. Authorities that authority.Load
// returned are read again for every connection. trusted says that the dialer does not
// use the network.
func Options(server string, config *tls.Config, secret string, dial Dialer, trusted bool) ([]grpc.DialOption, error) {
	creds := insecure.NewCredentials()
	if config != nil {
		creds = authority.Credentials(config)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(creds)}
	if secret != "" {
		options = append(options, grpc.WithPerRPCCredentials(call{secret}))
		if !trusted {
			var err error
			if dial, err = Guarded(server, config != nil, dial); err != nil {
				return nil, err
			}
		}
	}
	return append(options, grpc.WithContextDialer(dial)), nil
}

// Guarded returns a dialer for connections that carry a credential to a server,
// or why it must have none: it closes what is neither TLS nor on this machine.
func Guarded(server string, secure bool, dial Dialer) (Dialer, error) {
	if secure {
		return dial, nil
	}
	if err := Exposed(server, false); err != nil {
		return nil, err
	}
	return onLoopback(dial), nil
}

// onLoopback wraps a dialer whose connections must stay on this machine.
func onLoopback(dial Dialer) Dialer {
	return func(ctx context.Context, server string) (net.Conn, error) {
		conn, err := dial(ctx, server)
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
			_ = conn.Close() // nothing was sent
			return nil, Exposed(tcp.String(), false)
		}
		return conn, nil
	}
}

// call puts a credential into the metadata of a call.
type call struct{ secret string }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (c call) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + c.secret}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. The loopback
// needs none.
func (call) RequireTransportSecurity() bool { return false }

// Format keeps the credential out of whatever prints the options.
func (call) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "[secret]") }
