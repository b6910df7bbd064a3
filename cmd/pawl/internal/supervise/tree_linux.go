package supervise

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is what /proc/<pid>/stat says of one.
type process struct {
	pid, ppid, pgrp, session int
	state                    byte
	start                    string // in clock ticks after boot: with pid it names one process for good
}

func (p process) alive() bool { return p.state != 'Z' && p.state != 'X' }

// processes is one walk over /proc. It is no snapshot: a process that starts, ends or
// gets a new parent during the walk may be missing or misplaced. So one walk does not
// prove that no process is left.
func processes() (map[int]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]process, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := stat(pid); ok {
			all[pid] = p
		}
	}
	return all, nil
}

// stat reads one process; ok is false when there is none.
func stat(pid int) (p process, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	return parseStat(pid, b)
}

// parseStat reads a line of /proc/<pid>/stat. The name in it is whatever the
// process chose, brackets and newlines included; the last bracket ends it.
func parseStat(pid int, b []byte) (p process, ok bool) {
	const (
		state, ppid, pgrp, session, start = 0, 1, 2, 3, 19
	)
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) <= start || len(f[state]) != 1 {
		return process{}, false
	}
	p = process{pid: pid, state: f[state][0], start: string(f[start])}
	for field, to := range map[int]*int{ppid: &p.ppid, pgrp: &p.pgrp, session: &p.session} {
		n, err := strconv.Atoi(string(f[field]))
		if err != nil {
			return process{}, false
		}
		*to = n
	}
	return p, true
}

// descendants of root in all, apart from spare and what descends from it.
func descendants(all map[int]process, root int, spare map[int]bool) []process {
	children := make(map[int][]process)
	for _, p := range all {
		children[p.ppid] = append(children[p.ppid], p)
	}
	var found []process
	for todo := []int{root}; len(todo) > 0; {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range children[next] {
			if !spare[p.pid] {
				found = append(found, p)
				todo = append(todo, p.pid)
			}
		}
	}
	return found
}

// kill kills exactly p, never a later process with its number. The error says that
// the kernel refuses it.
func (p process) kill() error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// Linux before 5.3, or a filter that does not know the call: the time
		// between the look and the kill is all that is left.
		if now, ok := stat(p.pid); ok && now.start == p.start {
			return unix.Kill(p.pid, unix.SIGKILL)
		}
		return nil
	}
	if err != nil {
		return nil // it is gone
	}
	defer unix.Close(fd)
	if now, ok := stat(p.pid); ok && now.start == p.start {
		return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	return nil
}

// myChildren are the children that this process has now, started or inherited.
func myChildren() map[int]bool {
	mine := make(map[int]bool)
	if _, err := waitid(unix.P_ALL, 0, unix.WEXITED|unix.WNOWAIT|unix.WALL); errors.Is(err, unix.ECHILD) {
		return mine
	}
	all, err := processes()
	if err != nil {
		return mine
	}
	for _, p := range all {
		if p.ppid == os.Getpid() {
			mine[p.pid] = true
		}
	}
	return mine
}

// group is what this process's own group looks like.
type group struct {
	others []process // its other members
	// orphaned: no member has a parent in another group of the session, so that
	// nobody would continue it if it were stopped (the kernel's rule, POSIX).
	orphaned bool
}

func myGroup() group {
	g := group{orphaned: true}
	all, err := processes()
	if err != nil {
		return g
	}
	me, ok := all[os.Getpid()]
	if !ok {
		return g
	}
	for _, p := range all {
		if p.pgrp != me.pgrp || !p.alive() {
			continue
		}
		if p.pid != me.pid {
			g.others = append(g.others, p)
		}
		if parent, ok := all[p.ppid]; ok && parent.session == me.session && parent.pgrp != me.pgrp {
			g.orphaned = false
		}
	}
	return g
}

// stopped reports whether all of process pid is stopped.
func stopped(pid int) bool {
	p, ok := stat(pid)
	return ok && p.state == 'T'
}

// runs reports whether process pid is known not to be stopped.
func runs(pid int) bool {
	p, ok := stat(pid)
	return ok && p.state != 'T'
}

// stopMyself returns once this process has been stopped and continued. The
// signal goes to the calling thread: it stops before it returns, whereas one
// sent to the process may let this thread run on for a while.
func stopMyself() { _ = unix.Tgkill(os.Getpid(), unix.Gettid(), syscall.SIGSTOP) }

// selfPath is this binary, also when its file has been replaced since.
func selfPath() string { return "/proc/self/exe" }
