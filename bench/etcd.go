package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcdServers are the members of one cluster on this machine.
type etcdServers struct {
	members []*process
	links   []string
	certs   *certs
}

// etcdTTL of the sessions, in seconds.
const etcdTTL = int(sessionTTL / time.Second)

func (k kit) etcdServers(ctx context.Context, folder, name string, members int, certs *certs) (s *etcdServers, err error) {
	s = &etcdServers{certs: certs}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	scheme := "http://"
	if certs != nil {
		scheme = "https://"
	}
	var peers, cluster []string
	for i := range members {
		var link, peer string
		if err := freeAddresses(&link, &peer); err != nil {
			return s, err
		}
		s.links, peers = append(s.links, scheme+link), append(peers, "http://"+peer)
		cluster = append(cluster, fmt.Sprintf("%s-%d=http://%s", name, i, peer))
	}
	for i := range members {
		member := fmt.Sprintf("%s-%d", name, i)
		arguments := []string{
			"--name", member, "--log-level", "error", "--data-dir", filepath.Join(folder, member),
			"--listen-client-urls", s.links[i], "--advertise-client-urls", s.links[i],
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-token", name,
			"--auto-compaction-mode", "revision", "--auto-compaction-retention", "10000",
		}
		if certs != nil {
			arguments = append(arguments, "--cert-file", certs.cert, "--key-file", certs.key)
		}
		p, err := start(folder, member, k.etcd, arguments...)
		if err != nil {
			return s, err
		}
		s.members = append(s.members, p)
	}
	c, err := s.dial()
	if err != nil {
		return s, err
	}
	defer c.Close()
	return s, s.members[0].until(ctx, func(ctx context.Context) error {
		ctx, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		_, err := c.Get(ctx, "bench")
		return err
	})
}

func (s *etcdServers) stop() {
	for _, m := range s.members {
		m.stop()
	}
}

func (s *etcdServers) dial() (*clientv3.Client, error) {
	c := clientv3.Config{Endpoints: s.links, DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	if s.certs != nil {
		c.TLS = s.certs.client()
	}
	return clientv3.New(c)
}

// etcdSide takes etcd's Mutex.
type etcdSide struct {
	servers  *etcdServers
	clients  []*clientv3.Client
	sessions []*concurrency.Session
	judge    judge
}

func (s *etcdSide) as(name string, take acquireFunc) side {
	return side{name, take, &s.judge, s.servers.members}
}

// side opens clients, and sessions spread over them: a session is enough for
// all callers with names of their own, but cannot wait for itself.
func (s *etcdServers) side(ctx context.Context, clients, sessions int) (*etcdSide, error) {
	side := &etcdSide{servers: s}
	for i := range max(clients, sessions) {
		if i < clients {
			c, err := s.dial()
			if err != nil {
				side.close()
				return nil, fmt.Errorf("etcd: %w", err)
			}
			side.clients = append(side.clients, c)
		}
		if i < sessions {
			session, err := concurrency.NewSession(side.clients[i%clients], concurrency.WithTTL(etcdTTL))
			if err != nil {
				side.close()
				return nil, fmt.Errorf("etcd: %w", err)
			}
			side.sessions = append(side.sessions, session)
		}
	}
	return side, ctx.Err()
}

func (s *etcdSide) close() {
	for _, c := range s.clients {
		_ = c.Close() // the server ends next, and its sessions with it
	}
}

func (s *etcdSide) pairs(ctx context.Context, caller int) (held, error) {
	return s.take(ctx, caller, fmt.Sprintf("bench/%d", caller))
}

func (s *etcdSide) turns(ctx context.Context, caller int) (held, error) {
	return s.take(ctx, caller, "bench/turns")
}

// take makes a Mutex each time: it keeps nothing that is worth keeping.
func (s *etcdSide) take(ctx context.Context, caller int, name string) (held, error) {
	session := s.sessions[caller%len(s.sessions)]
	m := concurrency.NewMutex(session, name)
	if err := m.Lock(ctx); err != nil {
		return held{}, err
	}
	// Its fencing token is the revision at which the waiter's key was made. The
	// recipe shows it only in the comparison that transactions are to make.
	owned := m.IsOwner()
	return held{name, uint64(owned.GetCompare().GetCreateRevision()), m.Unlock}, nil
}

// puts writes one small value; there is nothing to give back.
func (s *etcdSide) puts(ctx context.Context, caller int) (held, error) {
	_, err := s.clients[0].Put(ctx, fmt.Sprintf("put/%d", caller), "held")
	return held{release: func(context.Context) error { return nil }}, err
}
