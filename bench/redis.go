package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlproject/pawl/internal/testport"
)

// redisConnections is how many connections the Redis client has.
const redisConnections = 64

// redisServer is one Redis; synced says whether every write is synced before it
// is answered (appendfsync always), otherwise nothing is kept.
type redisServer struct {
	*process
	address string
}

func (k kit) redisServer(ctx context.Context, folder string, synced bool) (*redisServer, error) {
	binary, err := installed("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	s := &redisServer{}
	if s.address, err = testport.Free(); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return nil, err
	}
	name, keeps := "redis", []string{"--appendonly", "no"}
	if synced {
		name, keeps = "redis-synced", []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	data := filepath.Join(folder, name)
	if err := os.Mkdir(data, 0o755); err != nil {
		return nil, err
	}
	arguments := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", data, "--save", "", "--daemonize", "no"}, keeps...)
	if s.process, err = start(folder, name, binary, arguments...); err != nil {
		return nil, err
	}
	side := s.side()
	defer side.close()
	if err := s.until(ctx, func(ctx context.Context) error { return side.client.Ping(ctx).Err() }); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

type redisSide struct {
	client *redis.Client
	judge  judge
	from   *redisServer
}

func (s *redisSide) as(name string, take acquireFunc) side {
	return side{name, take, &s.judge, []*process{s.from.process}}
}

func (s *redisServer) side() *redisSide {
	o := &redis.Options{Addr: s.address, PoolSize: redisConnections, PoolTimeout: sessionTTL}
	return &redisSide{client: redis.NewClient(o), from: s}
}

func (s *redisSide) close() { _ = s.client.Close() }

// redisRelease deletes the key only while it is ours.
var redisRelease = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)

// redisPoll is how long a waiter sleeps between two tries.
const redisPoll = time.Millisecond

func (s *redisSide) pairs(ctx context.Context, caller int) (held, error) {
	return s.take(ctx, fmt.Sprintf("bench/%d", caller))
}

func (s *redisSide) turns(ctx context.Context, _ int) (held, error) {
	return s.take(ctx, "bench/turns")
}

func (s *redisSide) take(ctx context.Context, name string) (held, error) {
	value := rand.Text()
	for {
		ok, err := s.client.SetNX(ctx, name, value, sessionTTL).Result()
		if err != nil {
			return held{}, fmt.Errorf("redis: %w", err)
		}
		if ok {
			break
		}
		select {
		case <-time.After(redisPoll):
		case <-ctx.Done():
			return held{}, ctx.Err()
		}
	}
	return held{name: name, release: func(ctx context.Context) error {
		n, err := redisRelease.Run(ctx, s.client, []string{name}, value).Int()
		if err == nil && n != 1 {
			err = fmt.Errorf("redis: %s was no longer held", name)
		}
		return err
	}}, nil
}
