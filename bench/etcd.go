package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcdSide is an etcd server of its own and one client of it.
type etcdSide struct {
	*process
	client *clientv3.Client
	// session serves the pairs, sessions one caller each on one name.
	session  *concurrency.Session
	sessions []*concurrency.Session
	mutexes  []*concurrency.Mutex
}

// etcdTTL of the sessions, in seconds.
const etcdTTL = 60

func startEtcd(ctx context.Context, binary, folder string, callers, waiters int) (*etcdSide, error) {
	var link, peer string
	if err := freeAddresses(&link, &peer); err != nil {
		return nil, err
	}
	p, err := start(folder, "etcd", binary, "--name", "bench", "--log-level", "error",
		"--data-dir", filepath.Join(folder, "etcd"),
		"--listen-client-urls", "http://"+link, "--advertise-client-urls", "http://"+link,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer,
		"--initial-cluster", "bench=http://"+peer)
	if err != nil {
		return nil, err
	}
	s := &etcdSide{process: p}
	if err := s.open(ctx, link, callers, waiters); err != nil {
		s.close()
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return s, nil
}

func (s *etcdSide) open(ctx context.Context, link string, callers, waiters int) (err error) {
	s.client, err = clientv3.New(clientv3.Config{
		Endpoints: []string{link}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	err = s.until(ctx, func(ctx context.Context) error {
		ctx, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		_, err := s.client.Get(ctx, "bench")
		return err
	})
	if err != nil {
		return err
	}
	if s.session, err = concurrency.NewSession(s.client, concurrency.WithTTL(etcdTTL)); err != nil {
		return err
	}
	for caller := range callers {
		s.mutexes = append(s.mutexes, concurrency.NewMutex(s.session, fmt.Sprintf("bench/%d", caller)))
	}
	for range waiters {
		session, err := concurrency.NewSession(s.client, concurrency.WithTTL(etcdTTL))
		if err != nil {
			return err
		}
		s.sessions = append(s.sessions, session)
	}
	return nil
}

func (s *etcdSide) close() {
	if s.client != nil {
		_ = s.client.Close() // the server ends next, and its sessions with it
	}
	s.stop()
}

func (s *etcdSide) pairs(ctx context.Context, caller int) (func(context.Context) error, error) {
	m := s.mutexes[caller]
	return m.Unlock, m.Lock(ctx)
}

func (s *etcdSide) turns(ctx context.Context, caller int) (func(context.Context) error, error) {
	m := concurrency.NewMutex(s.sessions[caller], "bench/turns")
	return m.Unlock, m.Lock(ctx)
}

// puts writes one small value; there is nothing to give back.
func (s *etcdSide) puts(ctx context.Context, caller int) (func(context.Context) error, error) {
	_, err := s.client.Put(ctx, fmt.Sprintf("put/%d", caller), "held")
	return func(context.Context) error { return nil }, err
}
