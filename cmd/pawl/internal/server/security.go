package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/audit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/authfile"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/link"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Security configures admission, identities and the audit log. The
// zero value lets everybody do everything.
type Security struct {
	TLS Files
	// AuthFile is the path of the file with identities; empty: nobody proves
	// anything.
	AuthFile string
	// AuditLog is the path of the audit log; empty: none. AuditRequired: nothing
	// is granted while it cannot be written.
	AuditLog      string
	AuditRequired bool
	// Reload has a value when the files are to be read again.
	Reload <-chan struct{}
}

// ErrSecurity: a file that says who may come in cannot be used.
var ErrSecurity = errors.New("TLS, the auth file or the audit log cannot be used")

// Reloads reports whether there is anything to be read again.
func (s Security) Reloads() bool { return s.TLS.On() || s.AuthFile != "" || s.AuditLog != "" }

// security is what of it is in force.
type security struct {
	o     Security
	log   *slog.Logger
	clock clock.Clock
	gate  *access.Gate
	certs *certificates
	audit *audit.Log
	// failed counts auth files that could not be used.
	failed atomic.Uint64
}

func secure(o Options) (s *security, err error) {
	s = &security{o: o.Security, log: o.Logger, clock: o.Clock, gate: access.NewGate(nil)}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrSecurity, err)
		}
	}()
	if o.Security.AuthFile != "" {
		p, err := s.readAuth()
		if err != nil {
			return nil, err
		}
		s.gate = access.NewGate(p)
	}
	if o.Security.TLS.On() {
		if s.certs, err = loadCertificates(o.Security.TLS, o.Clock, o.Logger, s.gate); err != nil {
			return nil, err
		}
	}
	if o.Security.AuditLog != "" {
		s.audit, err = audit.Open(audit.Options{
			Path: o.Security.AuditLog, Required: o.Security.AuditRequired, Clock: o.Clock, Logger: o.Logger,
		})
		if s.certs != nil {
			s.certs.note = s.note
		}
	}
	return s, err
}

func (s *security) readAuth() (*access.Policy, error) {
	p, open, err := authfile.Read(s.o.AuthFile, s.clock.Wall())
	if err != nil {
		return nil, fmt.Errorf("auth file: %w", err)
	}
	if open {
		s.log.Warn("auth file: others than its owner may read or write it; expected mode 600, or 640 where it is root's", "path", s.o.AuthFile)
	}
	s.log.Info("auth file: read", "path", s.o.AuthFile, "identities", p.Len())
	return p, nil
}

// follow reads the files again whenever it is told to, until stop is closed.
func (s *security) follow(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-s.o.Reload:
			s.reload()
		}
	}
}

// reload reads each file again. One that cannot be used leaves what was in force.
// The audit log has a line for each.
func (s *security) reload() {
	if s.audit != nil {
		s.audit.Reopen()
	}
	if s.certs != nil {
		_ = s.certs.Reload() // it was logged and noted
	}
	if s.o.AuthFile == "" {
		return
	}
	p, err := s.readAuth()
	if err != nil {
		s.failed.Add(1)
		s.log.Error("auth file: the new one cannot be used; the server goes on with the one it had", "error", err)
		s.note(access.AuditRecord{Verb: "reload", Outcome: "failed", Detail: err.Error()})
		return
	}
	out := s.gate.Set(p)
	s.log.Info("auth file: in force", "identities", p.Len(), "streams ended", out)
	s.note(access.AuditRecord{Verb: "reload", Outcome: "done", Detail: "auth file"})
}

func (s *security) note(d access.AuditRecord) {
	if s.audit != nil {
		s.audit.Record(d)
	}
}

// auditLog is the audit log; nil: there is none.
func (s *security) auditLog() access.AuditLog {
	if s.audit == nil {
		return nil
	}
	return s.audit
}

// ended is what the cell tells of ends; nil: nobody writes it down.
func (s *security) ended() func(locktable.Ended) {
	if s.audit == nil {
		return nil
	}
	return func(e locktable.Ended) {
		d := access.AuditRecord{
			Identity: e.Identity, Verb: e.What, Names: e.Names, Token: uint64(e.Token), Handle: e.Handle,
			Reason: e.Reason, Outcome: "done", Leases: e.Leases, Idle: e.What == "expired" && e.Leases == 0,
		}
		if e.By != "" {
			d.Detail = "by " + e.By
		}
		s.audit.Record(d)
	}
}

// grpcOptions are those of the server of a link.
func (s *security) grpcOptions(l *link.Server) []grpc.ServerOption {
	creds := insecure.NewCredentials()
	if s.certs != nil {
		creds = credentials.NewTLS(s.certs.config("h2"))
	}
	return append(link.ServerOptions(), l.TapAdmission(), grpc.Creds(link.Blocks(creds, s.clock, s.log)))
}

// webTLS is that of the HTTP front; nil: none.
func (s *security) webTLS() *tls.Config {
	if s.certs == nil {
		return nil
	}
	return s.certs.config("http/1.1")
}

func (s *security) close() error {
	if s.audit == nil {
		return nil
	}
	return s.audit.Close()
}

// newLink returns the link's front of a cell.
func (s *security) newLink(c *cell.Cell, o Options, st *opened) *link.Server {
	return link.New(c, link.Options{
		Clock: o.Clock, Logger: o.Logger, Version: o.Version, Store: o.Store, Gate: s.gate, Audit: s.auditLog(), Roster: st.roster,
		Health: func() *linkpb.Health { return healthOf(o, st) },
	})
}
