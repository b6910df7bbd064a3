//go:build unix

package testpostgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BinEnv names, in the environment, the folder of the programs of another
// PostgreSQL than the one that would be found.
const BinEnv = "PAWL_POSTGRES_BIN"

// StartMax bounds initdb and the start of the server, each.
const StartMax = time.Minute

// Options say what server to start; the zero value is right for tests.
type Options struct {
	// Bin is the folder of initdb and postgres. If it is empty, the folder is the one
	// in the environment ([BinEnv]), else the newest below the usual folders of the
	// distributions, else that in PATH.
	Bin string
	// Durable keeps fsync on, as for a benchmark.
	Durable bool
	// Settings are more lines of postgresql.conf, such as "max_connections = 10".
	Settings []string
}

// Server is a running server.
type Server struct {
	Folder, Bin string
	As          Dress
	Process     *Process
}

// Start makes a fresh server and returns when it takes connections.
func Start(o Options) (*Server, error) {
	bin, err := binaries(o.Bin)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, fmt.Errorf("testpostgres: %w", err)
	}
	s, err := start(bin, dir, o)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func start(bin, dir string, o Options) (*Server, error) {
	as, err := Unprivileged(dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	ctx, cancel := context.WithTimeout(context.Background(), StartMax)
	defer cancel()
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	as(initdb, dir)
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("testpostgres: initdb: %w\n%s", err, out)
	}
	conf := []string{
		"listen_addresses = ''", "unix_socket_directories = '" + dir + "'", "max_connections = 200",
		"max_prepared_transactions = 20", "shared_buffers = 32MB", "log_line_prefix = '%p '",
	}
	if !o.Durable {
		conf = append(conf, "fsync = off", "full_page_writes = off")
	}
	text := strings.Join(append(conf, o.Settings...), "\n") + "\n"
	if err := AppendFile(filepath.Join(data, "postgresql.conf"), text); err != nil {
		return nil, err
	}
	s := &Server{Folder: dir, Bin: bin, As: as}
	return s, s.Run()
}

func (s *Server) Run() error {
	// A standby is ready to accept read-only connections.
	p, err := StartProcess(s.As, s.Folder, "database system is ready to accept", "QUIT",
		filepath.Join(s.Bin, "postgres"), "-D", filepath.Join(s.Folder, "data"))
	s.Process = p
	return err
}

// Restart ends the server at once, as a crash does, and starts it again on the
// same data. When it fails the server is not running.
func (s *Server) Restart() error {
	s.Process.Stop()
	return s.Run()
}

// Stop ends the server at once and removes its folder.
func (s *Server) Stop() error {
	s.Process.Stop()
	if err := os.RemoveAll(s.Folder); err != nil {
		return fmt.Errorf("testpostgres: %w", err)
	}
	return nil
}

// PID is the process id of the server's first process.
func (s *Server) PID() (int, error) {
	text, err := os.ReadFile(filepath.Join(s.Folder, "data", "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("testpostgres: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0, fmt.Errorf("testpostgres: postmaster.pid: %w", err)
	}
	return pid, nil
}

// Dir is the folder with the server's socket, whose number is 5432.
func (s *Server) Dir() string { return s.Folder }

// DSN is the connection string of a database for the superuser postgres.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("host=%s port=5432 user=postgres database=%s sslmode=disable", s.Folder, database)
}

// binaries finds the folder that holds initdb and postgres.
func binaries(dir string) (string, error) {
	if dir == "" {
		dir = os.Getenv(BinEnv)
	}
	if dir != "" {
		return dir, nil
	}
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*", "/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
	} {
		dirs, _ := filepath.Glob(pattern) // the patterns are well formed
		for _, dir := range dirs {
			if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
				found = append(found, dir)
			}
		}
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int { return VersionOf(a) - VersionOf(b) }), nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errors.New("testpostgres: no PostgreSQL server found: there is no initdb; scripts/deps installs it")
}

// VersionOf is the version in the name of a folder, as far as it is there.
func VersionOf(dir string) int {
	digits := strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, dir)
	n, _ := strconv.Atoi(digits) // none: 0
	return n
}

func AppendFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("testpostgres: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("testpostgres: %w", err)
	}
	return nil
}
