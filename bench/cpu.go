package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is processor time, of user and system together.
type usage struct{ client, server time.Duration }

func (u usage) less(v usage) usage { return usage{u.client - v.client, u.server - v.server} }

// tick is the unit of /proc/PID/stat, 1/100 s wherever Linux runs.
const tick = 10 * time.Millisecond

// meter reads the usage of this process and of servers.
func meter(servers ...*process) func() usage {
	return func() (u usage) {
		var self syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &self) == nil {
			u.client = time.Duration(self.Utime.Nano() + self.Stime.Nano())
		}
		for _, s := range servers {
			u.server += s.cpu()
		}
		return u
	}
}

// cpu is what the process and its children have used; what has ended counts as
// far as its parent has waited for it. 0 where there is no /proc.
func (p *process) cpu() (sum time.Duration) {
	root := p.cmd.Process.Pid
	for _, s := range stats() {
		switch {
		case s.pid == root:
			sum += s.cpu
		case p.forks && s.parent == root:
			// Hundreds of children use less than a tick each.
			sum += s.exactly()
		}
	}
	return sum
}

// stat is what /proc tells of one process.
type stat struct {
	pid, parent int
	cpu         time.Duration
}

// exactly is what the scheduler counts of a process with one thread; where it
// does not tell, the ticks must do.
func (s stat) exactly() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", s.pid))
	if err != nil {
		return s.cpu
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return s.cpu
	}
	return time.Duration(n)
}

func stats() (all []stat) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		if s, err := parseStat(text); err == nil {
			all = append(all, s)
		}
	}
	return all
}

// parseStat reads proc(5)'s line; the second field, in parentheses, may hold
// spaces.
func parseStat(text []byte) (s stat, err error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return s, errors.New("no name in parentheses")
	}
	after := strings.Fields(string(text[end+1:]))
	const state, parent, utime, cstime = 3, 4, 14, 17
	if len(after) <= cstime-state {
		return s, fmt.Errorf("%d fields behind the name", len(after))
	}
	numbers := make([]int64, 0, 2+cstime-utime)
	for _, f := range append([]string{string(bytes.TrimSpace(text[:open])), after[parent-state]}, after[utime-state:cstime-state+1]...) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return s, err
		}
		numbers = append(numbers, n)
	}
	s.pid, s.parent = int(numbers[0]), int(numbers[1])
	for _, n := range numbers[2:] {
		s.cpu += time.Duration(n) * tick
	}
	return s, nil
}

// memory is what of a process lies in memory, in bytes.
type memory struct{ rss, anonymous, highest int64 }

func (p *process) memory() (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return memory{}, err
	}
	return parseMemory(string(text))
}

func parseMemory(text string) (m memory, err error) {
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		to := map[string]*int64{"VmRSS": &m.rss, "RssAnon": &m.anonymous, "VmHWM": &m.highest}[name]
		if to == nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return m, err
		}
		*to = n << 10
	}
	if m.rss == 0 {
		return m, errors.New("no VmRSS")
	}
	return m, nil
}
