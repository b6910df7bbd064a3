package doctor

import (
	"cmp"
	"context"
	"crypto/x509"
	"slices"
	"sync"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/internal/clock"
)

// WholeMax bounds how long Ask takes.
const WholeMax = 14 * time.Second

// Facts are what was found out about a cell.
type Facts struct {
	// Now is the wall clock of this machine.
	Now     time.Time
	Servers []Server
	// Own is the caller's own certificate; the zero value: none.
	Own Certificate
}

// Server is one server as it answered.
type Server struct {
	Address string
	// Found: it is not in --servers; another server named it as the active one.
	Found bool
	// Failed is why it gave no status. Refused: it answers, and does not let the caller
	// in. Alive: it answers, and cannot tell how the cell is.
	Failed         string
	Refused, Alive bool
	// Status is nil where it gave none.
	Status *linkpb.StatusResponse
	Took   time.Duration
	// Clocked: its clock was read, and is ahead of this machine's by OffsetLow to
	// OffsetHigh.
	Clocked               bool
	OffsetLow, OffsetHigh time.Duration
	// Members as this server sees them; nil where it has none. MembersFailed is why it
	// does not tell.
	Members       []*linkpb.Member
	MembersFailed string
	MembersDenied bool
	// Shown are the certificates that it proved itself by.
	Shown []Certificate
}

// Certificate is one that was seen.
type Certificate struct {
	// Use is what it is for, such as "certificate among peers".
	Use, Subject, Path string
	NotAfter           time.Time
}

// Ask asks every server of a target at once, and then the active one if it is not among
// them.
func Ask(ctx context.Context, t client.Target) Facts {
	ctx, cancel := context.WithTimeout(ctx, WholeMax)
	defer cancel()
	f := Facts{Servers: askEach(ctx, t, t.Servers())}
	f.Now = clock.System().Wall()
	if own := t.Own(); own != nil {
		f.Own = certificate("certificate", own)
	}
	for _, s := range askEach(ctx, t, elsewhere(f.Servers)) {
		s.Found = true
		f.Servers = append(f.Servers, s)
	}
	return f
}

// elsewhere are the active servers that others name, if none that was asked is active.
func elsewhere(all []Server) []string {
	var named []string
	for _, s := range all {
		if s.Status.GetActive() {
			return nil
		}
		to := s.Status.GetActiveLink()
		if to != "" && !slices.Contains(named, to) && !slices.ContainsFunc(all, func(o Server) bool { return o.Address == to }) {
			named = append(named, to)
		}
	}
	return named
}

func askEach(ctx context.Context, t client.Target, addresses []string) []Server {
	all := make([]Server, len(addresses))
	var asked sync.WaitGroup
	for i, address := range addresses {
		asked.Go(func() { all[i] = serverOf(t.Probe(ctx, address)) })
	}
	asked.Wait()
	return all
}

func serverOf(p client.Probe) Server {
	s := Server{
		Address: p.Server, Status: p.Status, Failed: p.Failed, Refused: p.Refused, Alive: p.Alive, Took: p.Took,
		Members: p.Members, MembersFailed: p.MembersFailed, MembersDenied: p.MembersDenied,
	}
	if !p.Wall.IsZero() {
		s.Clocked, s.OffsetLow, s.OffsetHigh = true, p.Wall.Sub(p.Received), p.Wall.Sub(p.Sent)
	}
	for i, c := range p.Chain {
		use := "certificate"
		if i > 0 {
			use = "authority"
		}
		s.Shown = append(s.Shown, certificate(use, c))
	}
	return s
}

func certificate(use string, c *x509.Certificate) Certificate {
	return Certificate{Use: use, Subject: cmp.Or(c.Subject.CommonName, c.Subject.String(), "without a name"), NotAfter: c.NotAfter}
}

// name is what a server is called: by its name among the members, if it is known, and its
// address.
func (s *Server) name() string {
	if node := s.Status.GetHealth().GetNode(); node != "" {
		return node + " (" + s.Address + ")"
	}
	return s.Address
}
