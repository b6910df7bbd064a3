package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlproject/pawl/internal/testport"
)

const zookeeperJar = "/usr/share/java/zookeeper.jar"

// zookeeperServer is one ZooKeeper, which syncs its log before it answers.
type zookeeperServer struct {
	*process
	address string
}

func (k kit) zookeeperServer(ctx context.Context, folder string) (*zookeeperServer, error) {
	java, err := installed("java", "java")
	if err == nil {
		_, err = installed("zookeeper", zookeeperJar)
	}
	if err != nil {
		return nil, err
	}
	s := &zookeeperServer{}
	if s.address, err = testport.Free(); err != nil {
		return nil, err
	}
	data, config := filepath.Join(folder, "zookeeper"), filepath.Join(folder, "zoo.cfg")
	text := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=%s\nmaxClientCnxns=0\nadmin.enableServer=false\n"+
		"autopurge.purgeInterval=1\n", data, s.address[len("127.0.0.1:"):])
	if err := errors.Join(os.Mkdir(data, 0o755), os.WriteFile(config, []byte(text), 0o644)); err != nil {
		return nil, err
	}
	s.process, err = start(folder, "zookeeper", java, "-Xmx1g",
		"-cp", zookeeperJar+":/usr/share/java/slf4j-nop.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	if err != nil {
		return nil, err
	}
	err = s.until(ctx, func(ctx context.Context) error {
		side, err := s.side(ctx, 1)
		if err == nil {
			side.close()
		}
		return err
	})
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// zookeeperSide takes locks by go-zookeeper's recipe, all in one session: each
// caller makes its own node.
type zookeeperSide struct {
	conn  *zk.Conn
	locks []*zk.Lock
	one   []*zk.Lock
	judge judge
	from  *zookeeperServer
}

func (s *zookeeperSide) as(name string, take acquireFunc) side {
	return side{name, take, &s.judge, []*process{s.from.process}}
}

func (s *zookeeperServer) side(ctx context.Context, callers int) (*zookeeperSide, error) {
	conn, events, err := zk.Connect([]string{s.address}, sessionTTL, zk.WithLogger(silent{}))
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	bound := time.After(2 * time.Second)
	for conn.State() != zk.StateHasSession {
		select {
		case <-events:
		case <-bound:
			conn.Close()
			return nil, errors.New("zookeeper: no session")
		case <-ctx.Done():
			conn.Close()
			return nil, ctx.Err()
		}
	}
	side := &zookeeperSide{conn: conn, from: s}
	all := zk.WorldACL(zk.PermAll)
	for caller := range callers {
		side.locks = append(side.locks, zk.NewLock(conn, fmt.Sprintf("/bench/%d", caller), all))
		side.one = append(side.one, zk.NewLock(conn, "/bench/turns", all))
	}
	return side, nil
}

func (s *zookeeperSide) close() { s.conn.Close() }

func (s *zookeeperSide) pairs(ctx context.Context, caller int) (held, error) {
	return s.take(ctx, s.locks[caller], fmt.Sprintf("bench/%d", caller))
}

func (s *zookeeperSide) turns(ctx context.Context, caller int) (held, error) {
	return s.take(ctx, s.one[caller], "bench/turns")
}

// take cannot be interrupted but by the end of the session, as the recipe takes
// no context. It shows no number that would do for a token either.
func (s *zookeeperSide) take(ctx context.Context, l *zk.Lock, name string) (held, error) {
	defer context.AfterFunc(ctx, s.conn.Close)()
	if err := l.Lock(); err != nil {
		return held{}, err
	}
	return held{name: name, release: func(context.Context) error { return l.Unlock() }}, nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}
