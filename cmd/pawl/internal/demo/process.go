package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// process is a child of the demo. It sees the end of its input when the demo
// ends, however that comes about, and then ends itself.
type process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	lines <-chan []byte
	ended chan struct{}
	err   error
}

// killAfter bounds the wait for a child that was asked to end.
const killAfter = 3 * time.Second

// start runs this program once more. Lines of its output, or of its log, come
// through lines. When ctx ends it is killed, a stopped one too.
func start(ctx context.Context, log bool, env []string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), env...)
	// A group of its own: the terminal's signals are for the demo, which ends
	// its children itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = killAfter
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if log {
		cmd.Stderr = write
	} else {
		cmd.Stdout, cmd.Stderr = write, os.Stderr
	}
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	lines := make(chan []byte, 64)
	p := &process{cmd: cmd, input: input, lines: lines, ended: make(chan struct{})}
	go func() {
		defer close(lines)
		defer read.Close()
		for s := bufio.NewScanner(read); s.Scan(); {
			select {
			case lines <- bytes.Clone(s.Bytes()):
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %v to process %d: %w", s, p.cmd.Process.Pid, err)
	}
	return nil
}

// goOn writes the line that a worker waits for.
func (p *process) goOn() error {
	if _, err := io.WriteString(p.input, "go on\n"); err != nil {
		return fmt.Errorf("tell the worker to go on: %w", err)
	}
	return nil
}

// kill ends the process as a crash does, and waits until it has ended.
func (p *process) kill() error {
	if err := p.signal(os.Kill); err != nil {
		return err
	}
	p.stop()
	return nil
}

// stop asks the process to end and waits until it has.
func (p *process) stop() {
	_ = p.input.Close() // gone already, perhaps
	patience, cancel := context.WithTimeout(context.Background(), killAfter)
	defer cancel()
	kill := context.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer kill()
	for range p.lines { //nolint:revive // what it still says is of no interest
	}
	<-p.ended
}

// next waits for the worker's next report, which must be want.
func (p *process) next(ctx context.Context, want string) (step, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return step{}, errors.New("a worker ended early")
		}
		var s step
		if err := json.Unmarshal(line, &s); err != nil {
			return step{}, fmt.Errorf("a worker said %q: %w", line, err)
		}
		if s.Step != want {
			return s, fmt.Errorf("a worker came to %q where %q was expected%s", s.Step, want, reasonOf(s))
		}
		return s, nil
	case <-ctx.Done():
		return step{}, fmt.Errorf("waiting for a worker to come to %q: %w", want, context.Cause(ctx))
	}
}

func reasonOf(s step) string {
	if s.Error == "" {
		return ""
	}
	return ": " + s.Error
}

// startServer runs a server in a folder, listening at an address, and returns where it
// is reached.
func startServer(ctx context.Context, folder, listen string) (*process, string, error) {
	p, err := start(ctx, true, nil, "serve", "--listen", listen, "--http", "off",
		"--data", folder, "--store", "embedded", "--log-format", "json", "--until-eof")
	if err != nil {
		return nil, "", err
	}
	var said []byte
	address := ""
	for line := range p.lines {
		var l struct{ Msg, Link string }
		switch err := json.Unmarshal(line, &l); {
		case err != nil:
			said = line
		case l.Msg == "listening":
			address = l.Link
		case l.Msg == "ready" && address != "":
			go func() {
				for range p.lines { //nolint:revive // kept from filling up
				}
			}()
			return p, address, nil
		}
	}
	p.stop()
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	return nil, "", fmt.Errorf("the server did not start: %s", said)
}

// startWorker runs a worker; args and env say where its ledger is.
func startWorker(ctx context.Context, w Worker, args, env []string) (*process, error) {
	return start(ctx, false, env, append([]string{
		WorkerCommand, "--server", w.Server, "--name", w.Name,
		"--amount", strconv.FormatInt(w.Amount, 10), "--ttl", w.TTL.String(),
		"--guarded=" + strconv.FormatBool(w.Guarded), "--slow=" + strconv.FormatBool(w.Slow),
		"--rides=" + strconv.FormatBool(w.Rides),
	}, args...)...)
}

// WorkerCommand is the hidden subcommand that is a worker.
const WorkerCommand = "demo-worker"
