//go:build unix

package testpostgres

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// Process is a program that lives until it is ended, and no longer than this
// one.
type Process struct {
	// Life is a pipe of which the program's keeper holds the other end.
	Life io.Closer
	Done chan struct{}
}

// keeper runs its arguments as a child and sends it the first of them, a signal,
// when its input ends.
const keeper = `signal=$1; shift; exec 3<&0 </dev/null; "$@" 3<&- & child=$!
(read _ <&3; kill -$signal $child) >/dev/null 2>&1 & exec 3<&-; wait $child`

// StartProcess starts a program, which the signal ends at once, and returns when its
// output holds a line with ready.
func StartProcess(as Dress, dir, ready, signal string, program ...string) (*Process, error) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", keeper, "testpostgres", signal}, program...)...)
	as(cmd, dir)
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("testpostgres: %w", err)
	}
	// The log goes through a pipe and not to a file, so that its end is noticed.
	logs, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("testpostgres: %w", err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("testpostgres: %w", err), logs.Close())
	}
	p := &Process{Life: life, Done: make(chan struct{})}
	up := make(chan struct{})
	said := make(chan string, 1)
	go Follow(logs, ready, up, said)
	go func() {
		// How it ended says nothing: stop ends it the hard way.
		_ = cmd.Wait()
		close(p.Done)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), StartMax)
	defer cancel()
	select {
	case <-up:
		return p, nil
	case text := <-said:
		p.Stop()
		return nil, fmt.Errorf("testpostgres: %s ended:\n%s", program[0], text)
	case <-ctx.Done():
		p.Stop()
		return nil, fmt.Errorf("testpostgres: %s not ready after %v", program[0], StartMax)
	}
}

// Follow reads a log to its end. It closes up when a line holds ready, and sends
// the beginning of the log when it ends.
func Follow(logs io.ReadCloser, ready string, up chan<- struct{}, said chan<- string) {
	defer logs.Close()
	var text bytes.Buffer
	told := false
	lines := bufio.NewReader(logs)
	for {
		line, err := lines.ReadString('\n')
		if text.Len() < 1<<16 {
			text.WriteString(line)
		}
		if !told && strings.Contains(line, ready) {
			told = true
			close(up)
		}
		if err != nil {
			said <- text.String()
			return
		}
	}
}

// Stop ends the program at once and returns when it is gone.
func (p *Process) Stop() {
	p.Life.Close()
	<-p.Done
}

// Dress gives a command its user and its folder.
type Dress func(cmd *exec.Cmd, dir string)

// Unprivileged dresses commands as this user, or, since PostgreSQL and its kin
// refuse to run as root, as another one, whose dir becomes.
func Unprivileged(dir string) (Dress, error) {
	if os.Geteuid() != 0 {
		return func(cmd *exec.Cmd, dir string) { cmd.Dir = dir }, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("testpostgres: user %s: %w", name, err)
		}
		if err := os.Chown(dir, uid, gid); err != nil {
			return nil, fmt.Errorf("testpostgres: %w", err)
		}
		return func(cmd *exec.Cmd, dir string) {
			cmd.Dir = dir
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}, nil
	}
	return nil, errors.New("testpostgres: this is root, and there is no user postgres or nobody to run the server as")
}
