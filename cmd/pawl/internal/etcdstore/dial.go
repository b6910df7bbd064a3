package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/pawlproject/pawl/internal/authority"
	"github.com/pawlproject/pawl/internal/dialerr"
)

// TLS names the files that connections to an etcd cluster are secured with, in
// PEM. The zero value uses the system's authorities and no certificate.
type TLS struct {
	// CA signed the members' certificates; read at every connection, too.
	CA string
	// Cert and Key are shown to the members: both or neither. They are read at
	// every connection, so that they can be renewed.
	Cert, Key string
}

// ParseEndpoint reads an endpoint: host:port, http://host:port or
// https://host:port. It returns host:port and whether it is to be reached
// through TLS; secure says so for the first form.
func ParseEndpoint(text string, secure bool) (address string, tls bool, err error) {
	address = text
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		switch scheme {
		case "http":
			secure = false
		case "https":
			secure = true
		default:
			return "", false, fmt.Errorf("%q has the scheme %q; expected http or https", text, scheme)
		}
		address = strings.TrimSuffix(rest, "/")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || strings.ContainsAny(address, "/?#@") {
		return "", false, fmt.Errorf("%q is no endpoint; expected host:port, http://host:port or https://host:port", text)
	}
	if err := dialerr.CheckHost(host); err != nil {
		return "", false, fmt.Errorf("%q is no endpoint: %w", text, err)
	}
	return address, secure, nil
}

func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pool, err := authority.Load(t.CA)
		if err != nil {
			return nil, fmt.Errorf("%w: read the authorities: %v", ErrFiles, err)
		}
		c.RootCAs = pool
	}
	if t.Cert == "" && t.Key == "" {
		return c, nil
	}
	present := func() (*tls.Certificate, error) {
		pair, err := authority.Pair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("%w: read the certificate: %v", ErrFiles, err)
		}
		return pair, nil
	}
	if _, err := present(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return present() }
	return c, nil
}

const (
	// keepaliveTime is the least that gRPC allows and more than the 5 s that
	// etcd does: a member that hears one more often hangs up.
	keepaliveTime = 10 * time.Second
	// reconnectMax bounds the pause between two tries to reach a member.
	reconnectMax = 2 * time.Second
)

// dial makes a way to each endpoint. None needs to answer yet.
func dial(endpoints []string, files TLS, patience time.Duration) (_ *members, err error) {
	m := &members{patience: patience}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	config, err := files.config()
	if err != nil {
		return nil, err
	}
	for _, text := range endpoints {
		address, secure, err := ParseEndpoint(text, files != TLS{})
		if err != nil {
			return nil, err
		}
		one := &member{address: address}
		creds := insecure.NewCredentials()
		if secure {
			one.tls = config.Clone()
			creds = authority.Credentials(one.tls)
		}
		conn, err := grpc.NewClient("dns:///"+address,
			grpc.WithTransportCredentials(creds),
			grpc.WithDisableRetry(),
			grpc.WithDisableServiceConfig(),
			// Its time-out is also how long the kernel lets what was sent go
			// unacknowledged: a host that is gone is noticed by that.
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: max(patience, time.Second)}),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax},
				MinConnectTimeout: max(patience, time.Second),
			}),
		)
		if err != nil {
			return nil, fmt.Errorf("prepare the way to %s: %w", address, err)
		}
		conn.Connect()
		one.conn, one.kv, one.care = conn, pb.NewKVClient(conn), pb.NewMaintenanceClient(conn)
		m.all = append(m.all, one)
	}
	if len(m.all) == 0 {
		return nil, errors.New("no endpoint is given")
	}
	return m, nil
}

// distrustMax bounds the question whether a member would have us.
const distrustMax = time.Second

// distrust finds out, for each member that did not answer, whether its certificate or
// ours is the reason. gRPC often reports no more than a broken pipe, since a client
// finishes its handshake before the server has checked its certificate.
func (m *members) distrust(ctx context.Context) error {
	for _, one := range m.all {
		if one.tls == nil {
			continue
		}
		if err := one.handshake(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, &memberError{noTLS(one.address, dialerr.Handshake(err.Error())), err})
		}
	}
	return nil
}

// handshake returns what either side holds against the other's certificate.
func (o *member) handshake(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, distrustMax)
	defer done()
	conn, err := (&tls.Dialer{Config: authority.Fresh(o.tls)}).DialContext(ctx, "tcp", o.address)
	if err == nil {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_, err = conn.Read(make([]byte, 1))
	}
	var theirs *tls.CertificateVerificationError
	if err != nil && (errors.As(err, &theirs) || aboutTLS(err)) {
		return err
	}
	return nil
}
