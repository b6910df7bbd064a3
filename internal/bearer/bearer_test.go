package bearer

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
)

// far is a connection that ended on another machine.
type far struct {
	net.Conn
	address net.Addr
	closed  bool
}

func (f *far) RemoteAddr() net.Addr { return f.address }
func (f *far) Close() error         { f.closed = true; return nil }

// A name of this machine that its host file sends elsewhere.
func TestConnectionBeyondLoopbackIsClosed(t *testing.T) {
	for ip, ok := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true, "10.0.0.1": false, "203.0.113.1": false, "fe80::1": false} {
		conn := &far{address: &net.TCPAddr{IP: net.ParseIP(ip), Port: 7420}}
		got, err := onLoopback(func(context.Context, string) (net.Conn, error) { return conn, nil })(t.Context(), "localhost:7420")
		if (err == nil) != ok || conn.closed == ok || (got != nil) != ok {
			t.Errorf("%s: %v, closed %t", ip, err, conn.closed)
		}
	}
}

func TestWhereACredentialMayGo(t *testing.T) {
	dial := func(context.Context, string) (net.Conn, error) { return nil, nil }
	for server, ok := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "LOCALHOST:1": true,
		"10.0.0.1:1": false, "localhost.example:1": false, "127.0.0.1.example:1": false, "0.0.0.0:1": false, "pawl:1": false, "": false,
	} {
		if _, err := Options(server, nil, "secret", dial, false); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", server, err)
		}
		for what, err := range map[string]error{
			"by TLS":               second(Options(server, &tls.Config{MinVersion: tls.VersionTLS12}, "secret", dial, false)),
			"without a credential": second(Options(server, nil, "", dial, false)),
			"where nothing leaves": second(Options(server, nil, "secret", dial, true)),
		} {
			if err != nil {
				t.Errorf("%q %s: %v", server, what, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestCredentialIsNotFormatted(t *testing.T) {
	if s := fmt.Sprintf("%v %+v %#v %x %s", call{"secret"}, call{"secret"}, call{"secret"}, call{"secret"}, call{"secret"}); strings.Contains(s, "secret}") || strings.Contains(s, "736563726574") {
		t.Error(s)
	}
	for _, bad := range []string{"", "a b", "a\n", "ä", strings.Repeat("x", secretMax+1)} {
		if err := Check(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
