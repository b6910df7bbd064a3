package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/pawlproject/pawl"
)

// pawlServer is a pawl server of its own.
type pawlServer struct {
	*process
	program program
	folder  string
	// link, http and debug are where it listens.
	link, http, debug string
	certs             *certs
	// others are the links of servers that keep the cell with this one.
	others []string
	// ttl is that of clients' sessions.
	ttl time.Duration
}

// pawlServer starts one on its embedded store, unless arguments name another.
func (k kit) pawlServer(ctx context.Context, folder, name string, certs *certs, arguments ...string) (*pawlServer, error) {
	s := &pawlServer{folder: folder, certs: certs, ttl: sessionTTL}
	if err := freeAddresses(&s.link, &s.http, &s.debug); err != nil {
		return nil, err
	}
	s.program = program{name: name, binary: k.pawl, args: append([]string{
		"serve", "--listen", s.link, "--http", s.http, "--debug-listen", s.debug,
		"--data", filepath.Join(folder, name),
	}, arguments...)}
	if certs != nil {
		s.program.args = append(s.program.args, "--tls-cert", certs.cert, "--tls-key", certs.key)
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	if err := s.until(ctx, s.answers); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// start begins the process, again when it had ended.
func (s *pawlServer) start() (err error) {
	s.process, err = s.program.start(s.folder)
	return err
}

// dial opens a client of the server.
func (s *pawlServer) dial(ctx context.Context, more ...string) (*pawl.Client, error) {
	o := pawl.Options{Label: "bench", TTL: s.ttl}
	if s.certs != nil {
		o.TLS = s.certs.client()
	}
	return pawl.Dial(ctx, slices.Concat([]string{s.link}, s.others, more), o)
}

// answers succeeds when the server serves.
func (s *pawlServer) answers(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	return c.Close()
}

// sessionTTL of sessions that are not what is measured: long enough for a
// machine that is busy with something else.
const sessionTTL = time.Minute

// pawlSide takes leases by clients of one server; caller n uses client n modulo
// their number.
type pawlSide struct {
	server  *pawlServer
	clients []*pawl.Client
	judge   judge
}

func (s *pawlSide) as(name string, take acquireFunc, more ...*process) side {
	return side{name, take, &s.judge, append([]*process{s.server.process}, more...)}
}

// side opens clients.
func (s *pawlServer) side(ctx context.Context, clients int) (*pawlSide, error) {
	side := &pawlSide{server: s}
	for range clients {
		c, err := s.dial(ctx)
		if err != nil {
			side.close()
			return nil, fmt.Errorf("pawl: %w", err)
		}
		side.clients = append(side.clients, c)
	}
	return side, nil
}

func (s *pawlSide) close() {
	for _, c := range s.clients {
		_ = c.Close() // the server ends next
	}
}

// pairs gives every caller a name of its own.
func (s *pawlSide) pairs(ctx context.Context, caller int) (held, error) {
	return s.take(ctx, caller, fmt.Sprintf("bench/%d", caller))
}

// turns lets all callers take one name.
func (s *pawlSide) turns(ctx context.Context, caller int) (held, error) {
	return s.take(ctx, caller, "bench/turns")
}

func (s *pawlSide) take(ctx context.Context, caller int, name string) (held, error) {
	l, err := s.clients[caller%len(s.clients)].Acquire(ctx, name)
	if err != nil {
		return held{}, err
	}
	return held{name, uint64(l.Token()), l.Release}, nil
}

// client is how TLS clients see the servers of this run.
func (c *certs) client() *tls.Config {
	return &tls.Config{RootCAs: c.pool, MinVersion: tls.VersionTLS12}
}
