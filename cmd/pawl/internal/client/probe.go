package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/dialerr"
)

const (
	// probeMax bounds each question of a Probe.
	probeMax = 2 * silentMax
	// probeQuick is how long an answer may take whose clock is not asked for again.
	probeQuick = 100 * time.Millisecond
)

// Probe is what one server answered.
type Probe struct {
	Server string
	// Status is nil where there is none; Failed says why then. Refused: the server
	// answers and does not let the caller in. Alive: it answers and cannot tell how the
	// cell is.
	Status         *linkpb.StatusResponse
	Failed         string
	Refused, Alive bool
	// Sent and Received are by the wall clock of this machine. The server's own clock
	// was read between the two.
	Sent, Received time.Time
	Wall           time.Time
	// Took is how long the answer took, with the connection.
	Took time.Duration
	// Members as this server sees them; nil where it has none. MembersFailed says why
	// it does not tell.
	Members       []*linkpb.Member
	MembersFailed string
	// MembersDenied: the caller may not know them.
	MembersDenied bool
	// Chain is what the server proved itself by, the authority last if it is known;
	// without TLS nothing. Of a server that could not be verified it is what it showed.
	Chain []*x509.Certificate
}

// Servers are the addresses that flags and environment name.
func (t Target) Servers() []string { return slices.Clone(t.servers) }

// Probe asks one server, and no other, for all that it tells of itself.
func (t Target) Probe(ctx context.Context, server string) Probe {
	p := Probe{Server: server}
	c := Target{servers: []string{server}, How: t.How}.Client()
	defer c.Close()
	conn, err := c.at(server)
	if err != nil {
		_, p.Failed = exit.Of(err)
		return p
	}
	l := linkpb.NewLinkClient(conn)
	begun := clock.System().Now()
	err = p.status(ctx, l)
	if exit.RefusalOf(err).GetReason() == linkpb.Reason_REASON_UNAVAILABLE {
		// It has just lost its tenure, and tells more as a standby.
		<-After(ctx, askAgain)
		err = p.status(ctx, l)
	}
	p.Took = clock.System().Now().Longer(begun)
	if err != nil {
		if p.fail(ctx, conn, t.How.TLS, err); !p.Alive {
			return p
		}
	} else if p.Took > probeQuick {
		// The connection was part of it, which leaves the clock in doubt.
		again := Probe{Server: server}
		if again.status(ctx, l) == nil {
			p.Sent, p.Received, p.Wall = again.Sent, again.Received, again.Wall
		}
	}
	asking, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	a, err := l.MemberList(asking, &linkpb.MemberListRequest{})
	switch reason := exit.RefusalOf(err).GetReason(); {
	case err == nil:
		p.Members = a.GetMembers()
	case reason == linkpb.Reason_REASON_INVALID, status.Code(err) == codes.Unimplemented:
		// Its store has none, or it is older than the question.
	case reason == linkpb.Reason_REASON_DENIED:
		p.MembersDenied = true
	default:
		_, p.MembersFailed = exit.Of(err)
	}
	return p
}

func (p *Probe) status(ctx context.Context, l linkpb.LinkClient) error {
	asking, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	var from peer.Peer
	sent := clock.System().Wall()
	a, err := l.Status(asking, &linkpb.StatusRequest{}, grpc.Peer(&from))
	p.Sent, p.Received = sent, clock.System().Wall()
	if err != nil {
		return err
	}
	p.Status = a
	if ns := a.GetWallUnixNano(); ns != 0 {
		p.Wall = time.Unix(0, ns)
	}
	if info, ok := from.AuthInfo.(credentials.TLSInfo); ok {
		p.Chain = info.State.PeerCertificates
		if chains := info.State.VerifiedChains; len(chains) > 0 {
			p.Chain = chains[0]
		}
	}
	return nil
}

// fail finds out why there is no status.
func (p *Probe) fail(ctx context.Context, conn *grpc.ClientConn, config *tls.Config, err error) {
	none := dialerr.Of(p.Server, err)
	switch reason := exit.RefusalOf(err).GetReason(); {
	case none != nil:
		p.Failed = none.Error()
	case status.Code(err) == codes.DeadlineExceeded, ctx.Err() != nil:
		p.Failed = "no answer from " + p.Server + " in time"
		p.Alive = conn.GetState() == connectivity.Ready && alive(ctx, conn)
	default:
		_, p.Failed = exit.Of(err)
		p.Refused = reason == linkpb.Reason_REASON_DENIED || reason == linkpb.Reason_REASON_UNAUTHENTICATED || status.Code(err) == codes.Unauthenticated
		p.Alive = reason == linkpb.Reason_REASON_UNAVAILABLE
	}
	if config != nil && none != nil && none.Insecure {
		p.Chain = shown(ctx, p.Server, config)
	}
}

// alive reports whether a server answers at all: any answer will do, even that the
// question is unknown.
func alive(ctx context.Context, conn *grpc.ClientConn) bool {
	asking, cancel := context.WithTimeout(ctx, silentMax/2)
	defer cancel()
	_, err := health.NewHealthClient(conn).Check(asking, &health.HealthCheckRequest{})
	return status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Unavailable
}

// shown are the certificates that a server shows, verified or not. They are looked at,
// and nothing is sent to the server.
func shown(ctx context.Context, server string, config *tls.Config) []*x509.Certificate {
	ctx, cancel := context.WithTimeout(ctx, silentMax)
	defer cancel()
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return nil
	}
	var chain []*x509.Certificate
	look := config.Clone()
	look.ServerName, look.NextProtos = host, []string{"h2"}
	look.InsecureSkipVerify = true // what is wrong with them is the question
	look.VerifyConnection = func(s tls.ConnectionState) error {
		chain = s.PeerCertificates
		return nil
	}
	conn, err := (&tls.Dialer{Config: look}).DialContext(ctx, "tcp", server)
	if err == nil {
		_ = conn.Close() // it was looked at
	}
	return chain
}

// Own is the certificate that the caller proves itself by; nil: none.
func (t Target) Own() *x509.Certificate {
	config := t.How.TLS
	if config == nil {
		return nil
	}
	if len(config.Certificates) > 0 {
		return config.Certificates[0].Leaf
	}
	if config.GetClientCertificate == nil {
		return nil
	}
	pair, err := config.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil {
		return nil // the connection says so
	}
	return pair.Leaf
}
