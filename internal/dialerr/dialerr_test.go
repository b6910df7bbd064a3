package dialerr_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/dialerr"
)

// The texts are gRPC's own: a new version of it that words them differently
// fails here.
func TestTextsOfGRPC(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := gone.Addr().String()
	gone.Close()
	for server, expected := range map[string]string{
		free:                         "no server answers at " + free + ": connection refused",
		web.Listener.Addr().String(): "what answers at " + web.Listener.Addr().String() + " is no pawl link: it looks like the HTTP port, or the one for peers",
		"nowhere.invalid:7420":       `no server answers at nowhere.invalid:7420: the host name "nowhere.invalid" c`,
	} {
		conn, err := grpc.NewClient("passthrough:///"+server, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, at string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", at)
			}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = linkpb.NewLinkClient(conn).Status(t.Context(), &linkpb.StatusRequest{})
		conn.Close()
		if got := dialerr.Of(server, err); got == nil || !strings.HasPrefix(got.Error(), expected) {
			t.Errorf("%s: %v is told as %v, expected %q", server, err, got, expected)
		}
	}
}

func TestOtherErrorsAreUnchanged(t *testing.T) {
	for _, err := range []error{
		nil, context.Canceled,
		status.Error(codes.Unavailable, "this server is not the active one"),
		status.Error(codes.NotFound, `connection error: desc = "x"`),
	} {
		if got := dialerr.Of("a:1", err); got != nil {
			t.Errorf("%v is told as %v", err, got)
		}
	}
	for text, why := range map[string]string{
		"error reading server preface: EOF":                                                                                            "the connection was taken and closed again (EOF); perhaps the server speaks TLS",
		"error reading server preface: remote error: tls: certificate required":                                                        "it asks for a client certificate, and none was shown (remote error: tls: certificate required)",
		"error reading server preface: remote error: tls: bad certificate":                                                             "it asks for a client certificate, and none that it takes was shown (remote error: tls: bad certificate)",
		"error reading server preface: remote error: tls: expired certificate":                                                         "it does not take the client certificate that was shown (remote error: tls: expired certificate)",
		"error reading server preface: remote error: tls: unknown certificate authority":                                               "it does not take the client certificate that was shown (remote error: tls: unknown certificate authority)",
		"error reading server preface: remote error: tls: protocol version not supported":                                              "remote error: tls: protocol version not supported",
		"transport: authentication handshake failed: remote error: tls: bad certificate":                                               "it asks for a client certificate, and none that it takes was shown (remote error: tls: bad certificate)",
		"transport: authentication handshake failed: x":                                                                                "x",
		"transport: authentication handshake failed: tls: first record does not look like a TLS handshake":                             "it does not speak TLS",
		"transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority": "its certificate is of an unknown authority (x509: certificate signed by unknown authority)",
		"error reading server preface: read tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection":                            dialerr.SaysNothing,
		"transport: authentication handshake failed: context deadline exceeded":                                                        dialerr.SaysNothing,
		"transport: Error while dialing: dial tcp 10.0.0.1:7420: i/o timeout":                                                          dialerr.SaysNothing,
		`transport: authentication handshake failed: not for \"b\"`:                                                                    `not for "b"`,
		"something else": "something else",
		"transport: Error while dialing: dial tcp: a: b": "b",
	} {
		if got := dialerr.Of("a:1", status.Error(codes.Unavailable, `connection error: desc = "`+text+`"`)); got == nil || got.Why != why {
			t.Errorf("%q is told as %v", text, got)
		}
	}
}

// Who names the port for peers is told of the link's, whatever the peers' port says.
func TestPeerPort(t *testing.T) {
	for server, hinted := range map[string]bool{"a:7422": true, "[::1]:7422": true, "a:7420": false, "7422:1": false} {
		for _, e := range []dialerr.Error{{Why: "connection refused"}, {Insecure: true, Why: "x"}, {Closed: true, Why: "EOF"}, {Silent: true, Why: dialerr.SaysNothing}} {
			e.Server = server
			if text := e.Error(); strings.Contains(text, "usually the port for peers") != hinted || !strings.Contains(text, e.Why) {
				t.Errorf("%q: %s", server, text)
			}
		}
	}
}

func TestCheckAddress(t *testing.T) {
	for address, good := range map[string]bool{
		"127.0.0.1:7420": true, "[::1]:1": true, "locks.example:65535": true,
		"": false, "localhost": false, ":7420": false, "a:": false, "a:0": false, "a:65536": false, "a:http": false,
		"http://a:1": false, "a b:1": false, "::1:7420": false, "a:-1": false,
		"[fe80::1%eth0]:7420": false, "[fe80::1]:7420": false, "[::1%lo]:7420": false, "[fe80::1%25eth0]:7420": false, "a%eth0:7420": false,
		"[ff02::1]:7420": false, "224.0.0.1:7420": false, "a?b:7420": false, "a#b:7420": false, "u@a:7420": false, "*:7420": false,
		"169.254.1.1:7420": true, "[2001:db8::1]:7420": true, "[::ffff:10.0.0.1]:7420": true, "a_b.example:7420": true,
	} {
		err := dialerr.CheckAddress(address)
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "host:port was expected") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
