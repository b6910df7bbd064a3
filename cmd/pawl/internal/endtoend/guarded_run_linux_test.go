package endtoend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// booking is the first argument of a worker that writes through the guard. Its other
// arguments are the database, a folder, and the pause after every write. It ends when it
// is told to: by the signal of its run, by a file "stop" in the folder, or by the guard.
const booking = "booking"

// The lines of a worker's file are its fence, then one for every write that was
// accepted, then why and when (boot time) it ended.
const (
	wroteLine  = "wrote"
	signalLine = "signal"
	staleLine  = "stale"
	stopLine   = "stop"
)

func bookingMain(dsn, dir, pause string) int {
	if err := bookOn(dsn, dir, pause); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

func bookOn(dsn, dir, pauseText string) error {
	told, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pause, err := time.ParseDuration(pauseText)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "book"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	ctx := context.Background()
	l, err := openLedger(ctx, dsn, 1)
	if err != nil {
		return err
	}
	defer l.pool.Close()
	fence := guard.Fence{Resource: os.Getenv("PAWL_RESOURCE"), Cell: os.Getenv("PAWL_CELL")}
	if _, err := fmt.Sscan(os.Getenv("PAWL_FENCE"), &fence.Token); err != nil {
		return err
	}
	c, err := l.clerk(ctx, fence)
	if err != nil {
		return err
	}
	fmt.Fprintln(f, fence.Resource, uint64(fence.Token), fence.Cell)
	beat := time.NewTicker(pause)
	defer beat.Stop()
	for {
		err := c.write(ctx, clock.Boottime())
		if errors.Is(err, guard.ErrStale) {
			_, err = fmt.Fprintln(f, staleLine, int64(clock.Boottime()))
			return err
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(f, wroteLine)
		if _, err := os.Stat(filepath.Join(dir, "stop")); err == nil {
			_, err = fmt.Fprintln(f, stopLine, int64(clock.Boottime()))
			return err
		}
		select {
		case <-beat.C:
		case <-told.Done():
			_, err := fmt.Fprintln(f, signalLine, int64(clock.Boottime()))
			return err
		}
	}
}

// command is a job that is a real pawl run and its command.
type command struct {
	*begun
	dir   string
	fence guard.Fence
}

// launchCommand starts it; await returns when it has written.
func launchCommand(t *testing.T, servers string, l *ledger, name string, pause, within time.Duration, flags ...string) *command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// What run says goes to a file, which is read while it runs.
	const start = `dir=$1; shift; exec "$@" 2>"$dir/said"`
	args := append([]string{"run", name, "--ttl", outageTTL.String()}, flags...)
	cmd := pawlCommand(t, within, append(args, "--", self, booking, l.dsn, dir, pause.String())...)
	cmd.Env = append(cmd.Env, "PAWL_SERVERS="+servers, "PAWL_CLAIM="+l.dsn, asWorker+"=1")
	cmd.Args = append([]string{"sh", "-c", start, "sh", dir, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return &command{begun: begin(t, cmd), dir: dir}
}

func (j *command) await() {
	j.t.Helper()
	testwait.Until(j.t, 2*bound, "the command writes", func() bool {
		select {
		case <-j.ended:
			j.t.Fatalf("the run ended: %v\n%s", j.end(), j.told())
		default:
		}
		lines := j.lines()
		if len(lines) < 2 {
			return false
		}
		var token uint64
		if _, err := fmt.Sscan(lines[0], &j.fence.Resource, &token, &j.fence.Cell); err != nil {
			j.t.Fatalf("%q: %v", lines[0], err)
		}
		j.fence.Token = guard.Token(token)
		return true
	})
}

// lines are those that the command has written in full.
func (j *command) lines() []string {
	j.t.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, "book"))
	if err != nil && !os.IsNotExist(err) {
		j.t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	return lines[:len(lines)-1]
}

func (j *command) shown() guard.Fence { return j.fence }

// over waits for the run, too, once its command has said its last word.
func (j *command) over() *ending {
	lines := j.lines()
	why, at, _ := strings.Cut(lines[len(lines)-1], " ")
	select {
	case <-j.ended:
	default:
		if why != signalLine && why != staleLine && why != stopLine {
			return nil
		}
		<-j.ended
	}
	var nano int64
	if _, err := fmt.Sscan(at, &nano); err != nil {
		j.t.Fatalf("the command's last word is %q: %v\n%s", lines[len(lines)-1], err, j.told())
	}
	return &ending{time.Duration(nano), fmt.Errorf("%s; the run ended with %d", why, shellCode(j.cmd.ProcessState))}
}

func (j *command) wrote() int64 {
	n := int64(0)
	for _, line := range j.lines() {
		if line == wroteLine {
			n++
		}
	}
	return n
}

func (j *command) back() bool {
	return strings.Contains(j.told(), "a server answers again; the lease goes on under the same token")
}

func (j *command) finish() {
	j.t.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, "stop"), nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
	if r := j.end(); r.code != 0 {
		j.t.Errorf("the run of %q ended with %d:\n%s", j.fence.Resource, r.code, j.told())
	}
}

func (j *command) told() string {
	text, err := os.ReadFile(filepath.Join(j.dir, "said"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// The commands are started one after the other and awaited together.
func startCommands(t *testing.T, n int, launch func(i int) *command) []*command {
	t.Helper()
	var jobs []*command
	for i := range n {
		jobs = append(jobs, launch(i))
	}
	for _, j := range jobs {
		j.await()
	}
	return jobs
}
