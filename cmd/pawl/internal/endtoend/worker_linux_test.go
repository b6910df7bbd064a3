package endtoend

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// asWorker makes the test binary be a worker: the command that pawl run runs.
const asWorker = "PAWL_ENDTOEND_WORKER"

const (
	// stampEvery is how often a first worker says that it is alive.
	stampEvery = 2 * time.Millisecond
	// workerMax bounds a worker that nobody ends.
	workerMax = 3 * time.Minute
	// tick is the unit of a process's start in /proc, which is the same on every
	// Linux.
	tick = 10 * time.Millisecond
)

// A worker's arguments: the file of stamps, first or next, and for the first how
// it behaves: deaf to TERM, or with a child in a session of its own.
const (
	first  = "first"
	next   = "next"
	deaf   = "deaf"
	escape = "escape"
)

// workerMain stamps lines into the file: who, process, boot time in nanoseconds.
// The first goes on until it is killed. The next stamps when it was started, and
// which of the first are alive.
func workerMain(args []string) int {
	if args[0] == frozen {
		return frozenMain(args[1], args[2], args[3])
	}
	if args[0] == booking {
		return bookingMain(args[1], args[2], args[3])
	}
	path, who := args[0], args[1]
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	stamp := func(who string, pid int, at time.Duration) { fmt.Fprintf(f, "%s %d %d\n", who, pid, at) }
	if who == next {
		stamp(next, os.Getpid(), startOf(os.Getpid()))
		seen, err := readStamps(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
		for pid := range seen.first {
			if startOf(pid) > 0 && startOf(pid) <= seen.first[pid].from {
				stamp("alive", pid, clock.Boottime())
			}
		}
		return 0
	}
	if slices.Contains(args, deaf) {
		signal.Ignore(syscall.SIGTERM)
	}
	if slices.Contains(args, escape) {
		again := exec.Command("/proc/self/exe", path, first, deaf)
		again.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := again.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
	}
	beat := time.NewTicker(stampEvery)
	stamp(first, os.Getpid(), clock.Boottime())
	for end := clock.Boottime() + workerMax; clock.Boottime() < end; {
		<-beat.C
		stamp(first, os.Getpid(), clock.Boottime())
	}
	return 4
}

// startOf is when a living process was started, rounded down to a tick; 0: there
// is none, or it is dead and not reaped.
func startOf(pid int) time.Duration {
	fields, err := statOf(pid)
	if err != nil || strings.ContainsAny(fields[0], "ZX") {
		return 0
	}
	return ticks(fields[19])
}

// processorTime is what a process has used.
func processorTime(pid int) (time.Duration, error) {
	fields, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	return ticks(fields[11]) + ticks(fields[12]), nil
}

// statOf reads /proc/<pid>/stat from the state on.
func statOf(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("/proc/%d/stat holds %q", pid, b)
	}
	return fields, nil
}

func ticks(field string) time.Duration {
	n, err := strconv.ParseInt(field, 10, 64)
	if err != nil {
		panic("the kernel counts " + field)
	}
	return time.Duration(n) * tick
}

// span is when a process is known to have lived.
type span struct{ from, to time.Duration }

// stamps is what workers stamped.
type stamps struct {
	first map[int]span  // by process
	next  time.Duration // when the next one was started; 0: not yet
	alive []int         // processes of the first, seen by the next
}

// readStamps reads whole lines; the last may be under way.
func readStamps(path string) (stamps, error) {
	s := stamps{first: map[int]span{}}
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return s, nil
		}
		var who string
		var pid int
		var at time.Duration
		if _, err := fmt.Sscan(line, &who, &pid, &at); err != nil {
			return s, fmt.Errorf("the stamp %q: %w", line, err)
		}
		switch who {
		case first:
			have, ok := s.first[pid]
			if !ok {
				have.from = at
			}
			s.first[pid] = span{have.from, max(have.to, at)}
		case next:
			s.next = at
		default:
			s.alive = append(s.alive, pid)
		}
	}
}

// overlap says which process of the first lived when the next was started; empty:
// none.
func (s stamps) overlap() string {
	for pid, lived := range s.first {
		if lived.to >= s.next {
			return fmt.Sprintf("process %d stamped %v after the next one's start", pid, lived.to-s.next)
		}
	}
	if len(s.alive) > 0 {
		return fmt.Sprintf("the next one found %v alive", s.alive)
	}
	return ""
}

// The check itself must find an overlap where there is one.
func TestCheckerFindsOverlap(t *testing.T) {
	for _, tc := range []struct {
		s    stamps
		want bool
	}{
		{stamps{first: map[int]span{1: {1, 5}, 2: {2, 6}}, next: 7}, false},
		{stamps{first: map[int]span{1: {1, 5}, 2: {2, 7}}, next: 7}, true},
		{stamps{first: map[int]span{1: {1, 9}, 2: {2, 6}}, next: 7}, true},
		{stamps{first: map[int]span{1: {1, 5}}, next: 7, alive: []int{1}}, true},
	} {
		if got := tc.s.overlap(); (got != "") != tc.want {
			t.Errorf("%+v: %q", tc.s, got)
		}
	}
}
