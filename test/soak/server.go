package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pawlproject/pawl/internal/testport"
)

// server is a pawl serve that is killed and started again on one folder and one
// address. Only the process that it started is ever signalled, by its id.
type server struct {
	binary, folder, link, http string
	// name and peer are those of its member, where several keep a cell.
	name, peer string
	// activeTTL is the server's active-ttl.
	activeTTL time.Duration
	// args are those beside the addresses and the folder.
	args []string

	log   *os.File
	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{}
	err   error
}

func newServer(binary, folder string) (*server, error) {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	s := &server{binary: binary, folder: folder, activeTTL: activeTTL}
	for _, address := range []*string{&s.link, &s.http} {
		if *address, err = testport.Free(); err != nil {
			return nil, err
		}
	}
	s.log, err = os.Create(filepath.Join(folder, "server.log"))
	return s, err
}

// start begins the process; it does not wait until it serves.
func (s *server) start() error {
	s.cmd = exec.Command(s.binary, append([]string{
		"serve", "--until-eof",
		"--listen", s.link, "--http", s.http, "--data", filepath.Join(s.folder, "data"),
		"--active-ttl", s.activeTTL.String(),
	}, s.args...)...)
	// A group of its own: Ctrl-C is for us, who end it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	input, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	ended := make(chan struct{})
	s.input, s.ended, s.err = input, ended, nil
	go func() {
		s.err = s.cmd.Wait()
		close(ended)
	}()
	return nil
}

// kill sends SIGKILL and waits for the end. An error: it had ended by itself.
func (s *server) kill() error {
	if s.hasEnded() {
		return s.failed()
	}
	_ = s.cmd.Process.Kill() // fails only when it has ended, which is seen below
	<-s.ended
	var exit *exec.ExitError
	if errors.As(s.err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return nil
	}
	return s.failed()
}

// hasEnded reports whether the process that was started last has ended.
func (s *server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// failed says how a server ended that should not have.
func (s *server) failed() error {
	return fmt.Errorf("the server ended by itself: %w; its log ends with\n%s", s.err, s.lastWords())
}

// stop asks the server to end, and sees that it does so cleanly.
func (s *server) stop(ctx context.Context) error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return s.failed()
	}
	select {
	case <-s.ended:
		if s.err != nil {
			return fmt.Errorf("stop the server: %w; its log ends with\n%s", s.err, s.lastWords())
		}
		return nil
	case <-ctx.Done():
		_ = s.kill()
		return fmt.Errorf("stop the server: %w", ctx.Err())
	}
}

// close ends whatever is left.
func (s *server) close() {
	if s.ended != nil {
		_ = s.cmd.Process.Kill() // fails when it has ended
		<-s.ended
	}
	_ = s.log.Close()
}

const lastWordsMax = 4 << 10

func (s *server) lastWords() []byte {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-lastWordsMax):])
}
