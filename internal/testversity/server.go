//go:build unix

package testversity

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/pawlproject/pawl/internal/testpostgres"
)

// The credentials of every server.
const (
	AccessKey = "user1234"
	SecretKey = "secretsecret"
)

// Server is a running server.
type Server struct {
	// URL is its endpoint. It takes buckets in the path.
	URL     string
	dir     string
	process *testpostgres.Process
}

// Start starts a server of a version, 1.7 or 1.8, and returns when it takes connections.
func Start(version string) (*Server, error) {
	_, file, _, _ := runtime.Caller(0)
	program := filepath.Join(filepath.Dir(file), "..", "..", ".bin", "versitygw-"+version)
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("testversity: %w: make pinned builds it", err)
	}
	dir, err := os.MkdirTemp("", "versitygw")
	if err != nil {
		return nil, fmt.Errorf("testversity: %w", err)
	}
	s, err := start(program, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func start(program, dir string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("testversity: %w", err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("testversity: %w", err)
	}
	as := func(cmd *exec.Cmd, dir string) {
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	}
	p, err := testpostgres.StartProcess(as, dir, "http://"+address, "KILL", program, "--port", address, "posix", dir)
	if err != nil {
		return nil, err
	}
	return &Server{"http://" + address, dir, p}, nil
}

// MakeBucket makes a bucket.
func (s *Server) MakeBucket(name string) error { return os.Mkdir(filepath.Join(s.dir, name), 0o755) }

// Stop ends the server and removes its folder.
func (s *Server) Stop() error {
	s.process.Stop()
	return os.RemoveAll(s.dir)
}
