package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// The test binary is also every program of these tests: os.Args[1] says which.
const (
	roleRun    = "role-run"
	roleShell  = "role-shell"
	roleEscape = "role-escape"
	roleStray  = "role-stray"
	roleFront  = "role-front"
	roleRooted = "role-rooted"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case WatchCommand:
			if os.Getenv("TEST_DEAF_WATCHER") != "" {
				deafWatcher(os.Args[2:])
			}
			os.Exit(WatcherMain(os.Args[2:]))
		case roleRun:
			os.Exit(mainRun())
		case roleShell:
			os.Exit(mainShell())
		case roleEscape:
			os.Exit(mainEscape(os.Args[2]))
		case roleStray:
			os.Exit(mainStray(os.Args[2], os.Args[3]))
		case roleRooted:
			os.Exit(mainRooted())
		case roleFront:
			os.Exit(mainFront())
		}
	}
	// Started in the background of a script, or by nohup, this process and all
	// that it starts would ignore what the tests send.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			c := make(chan os.Signal, 1)
			signal.Notify(c, sig)
			go func() {
				<-c
				os.Exit(1)
			}()
		}
	}
	os.Exit(m.Run())
}

// spec is what a test hands to its run.
type spec struct {
	Args      []string
	TTL       time.Duration // deadline from the start
	KillAfter time.Duration
	Margin    time.Duration
	MaxHold   time.Duration
	Signal    syscall.Signal
	Contain   Contain
	Deaf      bool          // the watcher does not act after the start
	Program   string        // a copy of this program; empty: itself
	Before    []string      // a command that ends by executing the run
	Says      string        // stands before what the run says
	Rides     time.Duration // the lease may ride until so long from the start
	Late      bool          // the command ends when the run is about to stop with it
}

// instruction is what a test says to a run, or to a shell.
type instruction struct {
	Deadline time.Duration // move the deadline to this long from now
	Lost     bool          // close Lost
	Asked    bool          // close Lost, and the lease is ours still
	Check    string        // what Check answers from here on; empty is ours
	Cancel   bool          // end the context
	Front    bool          // shell: bring the job to the foreground
}

// fakeLease is a lease in the hand of the test.
type fakeLease struct {
	mu       sync.Mutex
	deadline time.Duration
	check    string
	asked    bool
	renewed  chan struct{}
	lost     chan struct{}
}

func (l *fakeLease) Deadline() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *fakeLease) Renewed() <-chan struct{} { return l.renewed }
func (l *fakeLease) Lost() <-chan struct{}    { return l.lost }

func (l *fakeLease) Why() (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked {
		return "asked to let go: a reason", true
	}
	return "the lease is lost", false
}

func (l *fakeLease) Check(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check != "" {
		return errors.New(l.check)
	}
	return nil
}

func (l *fakeLease) obey(t instruction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check = t.Check
	if t.Deadline != 0 {
		l.deadline = clock.Boottime() + t.Deadline
		select {
		case l.renewed <- struct{}{}:
		default:
		}
	}
	l.asked = l.asked || t.Asked
	if t.Lost || t.Asked {
		close(l.lost)
	}
}

// mainRun is `pawl run` without the server: it reads tells from descriptor 3
// and writes its outcome to descriptor 4.
func mainRun() int {
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	tells, report := os.NewFile(3, "tells"), os.NewFile(4, "report")
	var s spec
	if err := json.Unmarshal([]byte(os.Getenv("TEST_SPEC")), &s); err != nil {
		panic(err)
	}
	if s.Deaf {
		os.Setenv("TEST_DEAF_WATCHER", "1")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lease := &fakeLease{
		deadline: clock.Boottime() + s.TTL,
		renewed:  make(chan struct{}, 1), lost: make(chan struct{}),
	}
	go func() {
		for dec := json.NewDecoder(tells); ; {
			var t instruction
			if dec.Decode(&t) != nil {
				return
			}
			lease.obey(t)
			if t.Cancel {
				cancel()
			}
			_ = json.NewEncoder(report).Encode(answer{})
		}
	}()
	job := Job{
		Args: s.Args, Env: Environ(os.Environ(), "PAWL_NAME=orders/7"),
		KillAfter: s.KillAfter, Margin: s.Margin, MaxHold: s.MaxHold, Signal: s.Signal, Contain: s.Contain,
		Notice:  func(line string) { fmt.Fprintln(os.Stderr, s.Says+"run:", line) },
		Overdue: func() string { return "for a reason" },
	}
	if s.Late {
		job.stopping = endsFirst
	}
	var under Lease = lease
	if s.Rides > 0 {
		under = rider(s, lease)
	}
	o, err := Run(ctx, job, under)
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
	}
	_ = json.NewEncoder(report).Encode(answer{&o})
	return o.Code
}

// answer is what a run says: that a tell has taken effect, or its outcome.
type answer struct{ Outcome *Outcome }

// control is the test's end of a run.
type control struct {
	t       *testing.T
	tells   *json.Encoder
	answers *json.Decoder
}

func (c control) send(v instruction) {
	c.t.Helper()
	if err := c.tells.Encode(v); err != nil {
		c.t.Fatal(err)
	}
	var a answer
	if err := c.answers.Decode(&a); err != nil || a.Outcome != nil {
		c.t.Fatalf("told %+v, heard %+v, %v", v, a, err)
	}
}

// outcome waits for the end of the run.
func (c control) outcome() Outcome {
	c.t.Helper()
	var a answer
	if err := c.answers.Decode(&a); err != nil || a.Outcome == nil {
		c.t.Fatalf("wait for the outcome: %+v, %v", a, err)
	}
	return *a.Outcome
}

// deafWatcher starts the command and does nothing after that.
func deafWatcher(args []string) {
	in, out, err := watcherPipes(args)
	if err != nil {
		panic(err)
	}
	w := &watcher{orders: inbox[order](in), reports: newOutbox[report](out)}
	w.start()
	forever()
}

// mainEscape leaves two processes behind in sessions of their own, one of them
// without a parent, and goes on until it is killed or its input ends.
func mainEscape(dir string) int {
	for _, name := range []string{"setsid", "double"} {
		cmd := exec.Command("/proc/self/exe", roleStray, dir, name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		if name == "double" {
			_ = cmd.Wait()
		}
	}
	pidFile(dir, "leader")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// mainStray stays, or starts one that stays and goes.
func mainStray(dir, name string) int {
	if name == "double" {
		cmd := exec.Command("/proc/self/exe", roleStray, dir, "orphan")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		return 0
	}
	pidFile(dir, name)
	forever()
	return 0
}

func forever() {
	for {
		_ = unix.Pause()
	}
}

// pidFile appears whole or not at all.
func pidFile(dir, name string) {
	tmp := filepath.Join(dir, "."+name)
	if err := os.WriteFile(tmp, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		panic(err)
	}
}

// job is a run that a test has started.
type job struct {
	control
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout growing
	stderr growing
	waited chan struct{}
}

func withDefaults(s spec) spec {
	if s.TTL == 0 {
		s.TTL = time.Hour
	}
	if s.KillAfter == 0 {
		s.KillAfter = 100 * time.Millisecond
	}
	if s.Margin == 0 {
		s.Margin = 250 * time.Millisecond
	}
	return s
}

func environ(t *testing.T, s spec) []string {
	t.Helper()
	b, err := json.Marshal(withDefaults(s))
	if err != nil {
		t.Fatal(err)
	}
	return Environ(os.Environ(), "TEST_SPEC="+string(b), "GORACE=atexit_sleep_ms=0")
}

// pipe returns one for a test's program; the parent's end is closed with the test.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// start starts a run outside of any terminal.
func start(t *testing.T, s spec) *job {
	t.Helper()
	j := &job{waited: make(chan struct{})}
	tellR, tellW := pipe(t)
	answerR, answerW := pipe(t)
	j.control = control{t, json.NewEncoder(tellW), json.NewDecoder(answerR)}
	program := self(t)
	if s.Program != "" {
		program = s.Program
	}
	line := append(s.Before, program, roleRun)
	j.cmd = exec.Command(line[0], line[1:]...)
	j.cmd.Env = environ(t, s)
	j.cmd.ExtraFiles = []*os.File{tellR, answerW}
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if j.stdin, err = j.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tellR.Close()
	answerW.Close()
	go func() {
		defer close(j.waited)
		_ = j.cmd.Wait()
	}()
	t.Cleanup(func() {
		// A kill of the run must suffice: its watcher ends the rest.
		_ = j.cmd.Process.Kill()
		<-j.waited
		if t.Failed() {
			t.Logf("stderr of the run:\n%s", j.stderr.String())
		}
	})
	return j
}

func (j *job) signal(sig syscall.Signal) {
	j.t.Helper()
	if err := j.cmd.Process.Signal(sig); err != nil {
		j.t.Fatal(err)
	}
}

// wait waits for the end of the run and checks that its exit code and its
// outcome say the same.
func (j *job) wait() Outcome {
	j.t.Helper()
	testwait.Until(j.t, bound, "the run ends", func() bool {
		select {
		case <-j.waited:
			return true
		default:
			return false
		}
	})
	o := j.outcome()
	if got := j.cmd.ProcessState.ExitCode(); got != o.Code {
		j.t.Errorf("exit code %d, outcome %v", got, o)
	}
	return o
}

func (o Outcome) String() string {
	child := "nil"
	if o.Child != nil && o.Child.Code != nil {
		child = strconv.Itoa(*o.Child.Code)
	} else if o.Child != nil {
		child = o.Child.Signal
	}
	return fmt.Sprintf("%d %s %s %s", o.Code, o.From, o.Reason, child)
}

// wantLost is want where the request to end and the kill come so close that
// either may be what ended the command.
func (j *job) wantLost() {
	j.t.Helper()
	if got := j.wait().String(); got != "70 pawl lease_lost TERM" && got != "70 pawl lease_lost KILL" {
		j.t.Errorf("outcome %q", got)
	}
}

func (j *job) want(outcome string) {
	j.t.Helper()
	if got := j.wait().String(); got != outcome {
		j.t.Errorf("outcome %q, want %q", got, outcome)
	}
}

// started waits for a program's pid file.
func started(t *testing.T, dir, name string) process {
	t.Helper()
	var p process
	testwait.Until(t, bound, name+" is there", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return false
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			return false
		}
		var ok bool
		p, ok = stat(pid)
		return ok
	})
	return p
}

func (p process) running() bool {
	now, ok := stat(p.pid)
	return ok && now.start == p.start && now.alive()
}

func childrenOf(t *testing.T, pid int) (found []process) {
	t.Helper()
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.ppid == pid && p.alive() {
			found = append(found, p)
		}
	}
	return found
}

// watcherOf finds the watcher of a run that has no other child.
func watcherOf(t *testing.T, run int) process {
	t.Helper()
	found := childrenOf(t, run)
	if len(found) != 1 {
		t.Fatalf("the run has children %v, want its watcher", found)
	}
	return found[0]
}

// script is a command in which "up" says, in dir/leader, that it is there.
func script(dir, text string) []string {
	return []string{"/bin/sh", "-c", `up() { echo $$ >"$0/.up" && mv "$0/.up" "$0/leader"; }; ` + text, dir}
}

func self(t *testing.T) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
