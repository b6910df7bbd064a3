package supervise

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Between two looks for what is left.
const (
	sweepPause    = 2 * time.Millisecond
	sweepPauseMax = 100 * time.Millisecond
)

// sweep kills and reaps all descendants of this process, except spare and its
// descendants, and returns when none is left. It returns the wait status of command if
// it reaped that, and whether it had to kill other processes. In every round it calls
// refused for each process that this user may not kill; sweep waits for those, too.
//
// A killed process cannot fork, and its children become children of this subreaper. So
// when this process has no child, it has no descendant. The kernel's ECHILD proves it;
// a walk over /proc only finds what to kill.
func sweep(command int, spare map[int]bool, cg cgroup, woken <-chan os.Signal, refused func(pid int)) (ws syscall.WaitStatus, known, left bool) {
	reaped := func(pid int, status syscall.WaitStatus) {
		if pid == command {
			ws, known = status, true
		} else if status.Signaled() && status.Signal() == syscall.SIGKILL {
			left = true
		}
	}
	for pause := sweepPause; ; pause = min(2*pause, sweepPauseMax) {
		cg.kill()
		if len(spare) == 0 {
			for {
				var status unix.WaitStatus
				pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, nil)
				if err == unix.EINTR {
					continue
				}
				if err == unix.ECHILD {
					return ws, known, left
				}
				if err != nil || pid == 0 {
					break
				}
				reaped(pid, syscall.WaitStatus(status))
			}
		}
		all, err := processes()
		more := err != nil
		if err == nil {
			for _, p := range descendants(all, os.Getpid(), spare) {
				more = true
				if p.alive() {
					if errors.Is(p.kill(), unix.EPERM) {
						refused(p.pid)
					}
				} else if status, ok := reap(p.pid); ok {
					reaped(p.pid, status)
				}
			}
		}
		if len(spare) > 0 && !more && allReaped(spare) {
			return ws, known, left
		}
		select {
		case <-woken:
		case <-time.After(pause): //tidy:clock a pause between two looks decides nothing
		}
	}
}

// allReaped checks once more: with children that are to be spared there is no
// ECHILD, and one walk alone can miss a process that was just given a new parent.
func allReaped(spare map[int]bool) bool {
	all, err := processes()
	return err == nil && len(descendants(all, os.Getpid(), spare)) == 0
}
