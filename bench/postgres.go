package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/internal/testport"
)

// postgresServer is one PostgreSQL with the settings it comes with, more
// connections excepted: a commit is synced.
type postgresServer struct {
	*process
	url string
}

func (k kit) postgresServer(ctx context.Context, folder string) (*postgresServer, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return nil, lacking("postgresql is not installed")
	}
	bin := filepath.Dir(slices.Max(found))
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "postgres")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	if as != nil {
		if err := os.Chown(data, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	create := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-locale")
	create.Dir = "/"
	create.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	address, err := testport.Free()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	s := &postgresServer{url: "postgres://bench@" + address + "/postgres?sslmode=disable"}
	s.process, err = program{
		name: "postgres", binary: filepath.Join(bin, "postgres"), as: as, forks: true,
		// A fast shutdown, which waits for nobody.
		ending: syscall.SIGINT,
		args: []string{
			"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
			"-c", "max_connections=400",
		},
	}.start(folder)
	if err != nil {
		return nil, err
	}
	err = s.until(ctx, func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, s.url)
		if err == nil {
			err = c.Close(ctx)
		}
		return err
	})
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// unprivileged is who runs what refuses to run as root; nil: we are not root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, lacking("there is no unprivileged user to run postgresql as")
}

// postgresSide takes advisory locks, which end with their connection and are
// not durable: every caller has a connection of its own.
type postgresSide struct {
	connections []*pgx.Conn
	judge       judge
	from        *postgresServer
}

func (s *postgresSide) as(name string, take acquireFunc) side {
	return side{name, take, &s.judge, []*process{s.from.process}}
}

func (s *postgresServer) side(ctx context.Context, callers int) (*postgresSide, error) {
	side := &postgresSide{from: s}
	for range callers {
		c, err := pgx.Connect(ctx, s.url)
		if err != nil {
			side.close()
			return nil, fmt.Errorf("postgres: %w", err)
		}
		side.connections = append(side.connections, c)
	}
	return side, nil
}

func (s *postgresSide) close() {
	for _, c := range s.connections {
		_ = c.Close(context.Background()) // the server ends next
	}
}

func (s *postgresSide) pairs(ctx context.Context, caller int) (held, error) {
	return s.take(ctx, caller, caller)
}

func (s *postgresSide) turns(ctx context.Context, caller int) (held, error) {
	return s.take(ctx, caller, -1)
}

func (s *postgresSide) take(ctx context.Context, caller, key int) (held, error) {
	c := s.connections[caller]
	if _, err := c.Exec(ctx, "select pg_advisory_lock($1)", key); err != nil {
		return held{}, fmt.Errorf("postgres: %w", err)
	}
	return held{name: strconv.Itoa(key), release: func(ctx context.Context) error {
		var was bool
		err := c.QueryRow(ctx, "select pg_advisory_unlock($1)", key).Scan(&was)
		if err == nil && !was {
			err = fmt.Errorf("postgres: lock %d was not held", key)
		}
		return err
	}}, nil
}
