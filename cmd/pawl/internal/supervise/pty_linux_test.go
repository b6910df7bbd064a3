package supervise

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/testwait"
)

// What the keyboard sends.
const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// mainFront is a command that says whether it has the terminal, then once for
// every line that it reads; "exit N" ends it.
func mainFront() int {
	say := func(line string) {
		f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		front, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
		fmt.Printf("said:%s front=%v %v\n", line, front == unix.Getpgrp(), err)
	}
	say("up")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if code, ok := strings.CutPrefix(in.Text(), "exit "); ok {
			n, _ := strconv.Atoi(code)
			return n
		}
		say(in.Text())
	}
	return 0
}

// event is what a shell says of its job.
type event struct {
	Kind  string // started, stopped, exited
	Run   int    // pid
	Group int    // of the job
	Front int    // the terminal's foreground group
	Code  int
	Echo  bool // the terminal shows what is typed
}

// mainShell is as much of a shell with job control as these tests need. Its
// terminal is its standard input; 3 brings tells, 4 takes events, 5 and 6 are
// the run's.
func mainShell() int {
	for fd := 3; fd <= 6; fd++ {
		unix.CloseOnExec(fd)
	}
	tells, events := json.NewDecoder(os.NewFile(3, "tells")), json.NewEncoder(os.NewFile(4, "events"))
	sys := &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}
	if os.Getenv("TEST_SIBLING") != "" {
		// The first of a pipeline leads the group.
		first, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: sys,
		})
		if err != nil {
			panic(err)
		}
		defer func() { _ = unix.Kill(first, unix.SIGKILL) }()
		sys = &syscall.SysProcAttr{Setpgid: true, Pgid: first}
	}
	run, err := syscall.ForkExec("/proc/self/exe", []string{"run", roleRun}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, 5, 6}, Sys: sys,
	})
	if err != nil {
		panic(err)
	}
	unix.Close(5)
	unix.Close(6)
	signal.Ignore(syscall.SIGTTOU)
	group, err := unix.Getpgid(run)
	if err != nil {
		panic(err)
	}
	say := func(kind string, code int) {
		front, _ := unix.IoctlGetInt(0, unix.TIOCGPGRP)
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp())
		modes, err := unix.IoctlGetTermios(0, ioctlGetModes)
		echo := err == nil && modes.Lflag&unix.ECHO != 0
		_ = events.Encode(event{Kind: kind, Run: run, Group: group, Front: front, Code: code, Echo: echo})
	}
	_ = events.Encode(event{Kind: "started", Run: run, Group: group})
	go func() {
		for {
			var t instruction
			if tells.Decode(&t) != nil {
				return
			}
			if t.Front {
				_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group)
			}
			_ = unix.Kill(-group, unix.SIGCONT)
		}
	}()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(run, &ws, unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil || pid != run:
			panic(fmt.Sprint(pid, err))
		case ws.Stopped():
			say("stopped", int(ws.StopSignal()))
		default:
			code := ws.ExitStatus()
			if ws.Signaled() {
				code = -int(ws.Signal())
			}
			say("exited", code)
			return 0
		}
	}
}

// seat is a terminal with a job on it.
type seat struct {
	control
	master *os.File
	said   <-chan string
	shell  *json.Encoder
	events <-chan event
	run    int
	group  int
}

func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if ctlErr := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); ctlErr != nil || err != nil {
		t.Fatal(ctlErr, err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// onTerminal starts a run on a terminal of its own: under a shell, or as the
// leader of the session.
func onTerminal(t *testing.T, s spec, shell bool, env ...string) *seat {
	t.Helper()
	master, slave := openPTY(t)
	defer slave.Close()
	tellR, tellW := pipe(t)
	answerR, answerW := pipe(t)
	st := &seat{
		control: control{t, json.NewEncoder(tellW), json.NewDecoder(answerR)},
		master:  master, said: saidLines(t, master),
	}
	cmd := exec.Command("/proc/self/exe", roleRun)
	cmd.ExtraFiles = []*os.File{tellR, answerW}
	if shell {
		shellR, shellW := pipe(t)
		eventR, eventW := pipe(t)
		defer shellR.Close()
		defer eventW.Close()
		st.shell, st.events = json.NewEncoder(shellW), eventsOf(eventR)
		cmd = exec.Command("/proc/self/exe", roleShell)
		cmd.ExtraFiles = []*os.File{shellR, eventW, tellR, answerW}
	}
	cmd.Env = Environ(environ(t, s), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tellR.Close()
	answerW.Close()
	t.Cleanup(func() {
		// The shell does not wait for what it is killed under; the run's end is
		// seen by the end of its answers.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if st.run != 0 {
			_ = unix.Kill(st.run, unix.SIGKILL)
		}
	})
	st.run = cmd.Process.Pid
	if shell {
		e := st.event("started")
		st.run, st.group = e.Run, e.Group
	}
	return st
}

func eventsOf(r *os.File) <-chan event {
	c := make(chan event, 16)
	go func() {
		defer close(c)
		for dec := json.NewDecoder(r); ; {
			var e event
			if dec.Decode(&e) != nil {
				return
			}
			c <- e
		}
	}()
	return c
}

// saidLines are the lines of a terminal that the command said, not the echo.
func saidLines(t *testing.T, master *os.File) <-chan string {
	c := make(chan string, 64)
	t.Cleanup(func() {
		master.Close()
		for range c {
		}
	})
	go func() {
		defer close(c)
		for in := bufio.NewScanner(master); in.Scan(); {
			_, line, ok := strings.Cut(strings.TrimRight(in.Text(), "\r"), "said:")
			if ok {
				c <- line
			} else {
				fmt.Fprintf(t.Output(), "terminal: %q\n", in.Text())
			}
		}
	}()
	return c
}

func next[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	var v T
	testwait.Until(t, bound, what, func() bool {
		select {
		case got, ok := <-c:
			if !ok {
				t.Fatalf("no more to come: %s", what)
			}
			v = got
			return true
		default:
			return false
		}
	})
	return v
}

func (s *seat) event(kind string) event {
	s.t.Helper()
	e := next(s.t, s.events, "the shell sees its job "+kind)
	if e.Kind != kind {
		s.t.Fatalf("the shell sees %+v, want %s", e, kind)
	}
	return e
}

func (s *seat) says(want string) {
	s.t.Helper()
	if got := next(s.t, s.said, "the command says "+want); got != want {
		s.t.Fatalf("the command says %q, want %q", got, want)
	}
}

func (s *seat) press(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// exits waits for the run's end: its outcome, its code, the terminal back.
func (s *seat) exits(outcome string) (last event) {
	s.t.Helper()
	o := s.outcome()
	if o.String() != outcome {
		s.t.Errorf("outcome %q, want %q", o, outcome)
	}
	if s.events == nil {
		return event{}
	}
	e := s.event("exited")
	if e.Code != o.Code {
		s.t.Errorf("exit code %d, outcome %q", e.Code, o)
	}
	if e.Front != s.group {
		s.t.Errorf("the terminal's front is group %d, want %d", e.Front, s.group)
	}
	return e
}

func front() []string { return []string{"/proc/self/exe", roleFront} }

func TestTerminalIsGivenToCommandAndReturned(t *testing.T) {
	for _, shell := range []bool{true, false} {
		t.Run(fmt.Sprintf("shell=%v", shell), func(t *testing.T) {
			s := onTerminal(t, spec{Args: front()}, shell)
			s.says("up front=true <nil>")
			s.press("hello\nexit 5\n")
			s.says("hello front=true <nil>")
			s.exits("5 child exited 5")
		})
	}
}

func TestTerminalIsReturnedWhenCommandFailsToStart(t *testing.T) {
	path := t.TempDir() + "/lost"
	if err := os.WriteFile(path, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	onTerminal(t, spec{Args: []string{path}}, true).exits("126 pawl not_executable nil")
}

func TestCtrlC(t *testing.T) {
	for _, shell := range []bool{true, false} {
		t.Run(fmt.Sprintf("shell=%v", shell), func(t *testing.T) {
			s := onTerminal(t, spec{Args: front()}, shell)
			s.says("up front=true <nil>")
			s.press(ctrlC)
			s.exits("130 child signaled INT")
		})
	}
}

func TestHangUp(t *testing.T) {
	s := onTerminal(t, spec{Args: []string{"sh", "-c", "echo said:up; exec sleep 1000"}}, false)
	s.says("up")
	s.master.Close()
	s.exits("129 child signaled HUP")
}

// pausedByCtrlZ brings a job to the state that a shell shows as stopped.
func pausedByCtrlZ(t *testing.T, sp spec) *seat {
	t.Helper()
	sp.Args = front()
	s := onTerminal(t, sp, true)
	s.says("up front=true <nil>")
	s.press(ctrlZ)
	if e := s.event("stopped"); e.Front != s.group {
		t.Errorf("the terminal's front is group %d, want the run's, %d", e.Front, s.group)
	}
	return s
}

func (s *seat) continues(front bool) {
	s.t.Helper()
	if err := s.shell.Encode(instruction{Front: front}); err != nil {
		s.t.Fatal(err)
	}
}

func TestCtrlZ(t *testing.T) {
	s := pausedByCtrlZ(t, spec{})
	s.continues(true)
	s.press("again\n")
	s.says("again front=true <nil>")
	// And once more, through the background: reading there stops it.
	s.press(ctrlZ)
	s.event("stopped")
	s.continues(false)
	s.event("stopped")
	s.continues(true)
	s.press("third\nexit 3\n")
	s.says("third front=true <nil>")
	s.exits("3 child exited 3")
}

func TestLeaseLostWhileStoppedByCtrlZ(t *testing.T) {
	s := onTerminal(t, spec{Args: front(), KillAfter: bound}, true)
	s.says("up front=true <nil>")
	s.send(instruction{Check: "gone"})
	s.press(ctrlZ)
	s.event("stopped")
	s.continues(true)
	s.press("again\n")
	s.exits("70 pawl lease_lost KILL")
	for line := range s.said {
		t.Errorf("the command went on: %q", line)
	}
}

// Without a shell nobody could continue a stopped run. So Ctrl-Z stops nothing, as the
// kernel does it for a command that has no shell.
func TestCtrlZWithoutAShell(t *testing.T) {
	s := onTerminal(t, spec{Args: front()}, false)
	s.says("up front=true <nil>")
	s.press(ctrlZ)
	s.press("again\n")
	s.says("again front=true <nil>")
	s.press("exit 0\n")
	s.exits("0 child exited 0")
}

// In a pipeline others of the group may want the keyboard: the command gets the
// terminal when it reads from it.
func TestTerminalIsGivenWhenCommandReads(t *testing.T) {
	s := onTerminal(t, spec{Args: front()}, true, "TEST_SIBLING=1")
	s.says("up front=false <nil>")
	s.press("hello\n")
	s.says("hello front=true <nil>")
	s.press("exit 6\n")
	s.exits("6 child exited 6")
}

// In a pipeline the keyboard stops all of it, whichever group has the terminal.
func TestCtrlZStopsThePipeline(t *testing.T) {
	t.Run("the command has the terminal", func(t *testing.T) {
		s := onTerminal(t, spec{Args: front()}, true, "TEST_SIBLING=1")
		s.says("up front=false <nil>")
		s.press("hello\n")
		s.says("hello front=true <nil>")
		s.press(ctrlZ)
		s.event("stopped")
		// The sibling leads the group.
		if !testwait.Holds(10*time.Second, func() bool { return stopped(s.group) }) {
			t.Error("the sibling goes on")
		}
		s.continues(true)
		s.press("exit 6\n")
		s.exits("6 child exited 6")
	})
	t.Run("the run has the terminal", func(t *testing.T) {
		// A command that does not read never gets it.
		s := onTerminal(t, spec{Args: []string{"sh", "-c", "echo said:up; exec sleep 1000"}}, true, "TEST_SIBLING=1")
		s.says("up")
		command := childrenOf(t, watcherOf(t, s.run).pid)
		if len(command) != 1 {
			t.Fatalf("the watcher has children %v, want the command", command)
		}
		s.press(ctrlZ)
		if !testwait.Holds(10*time.Second, func() bool { return stopped(command[0].pid) }) {
			t.Fatal("the command goes on")
		}
		s.event("stopped")
		s.continues(true)
		testwait.Until(t, bound, "the command goes on", func() bool { return runs(command[0].pid) })
		s.press(ctrlC)
		s.exits("130 child signaled INT")
	})
}

// What a command leaves of the terminal's modes is its own choice, unless it was
// killed before it could undo it.
func TestTerminalModesAreRestoredAfterKill(t *testing.T) {
	s := onTerminal(t, spec{Args: []string{"sh", "-c", "stty -echo; echo said:up; exec sleep 1000"}}, true)
	s.says("up")
	s.press(ctrlC)
	if e := s.exits("130 child signaled INT"); !e.Echo {
		t.Error("a command that was killed leaves a terminal without echo")
	}
	s = onTerminal(t, spec{Args: []string{"stty", "-echo"}}, true)
	if e := s.exits("0 child exited 0"); e.Echo {
		t.Error("a command that ended by itself has its modes undone")
	}
}
