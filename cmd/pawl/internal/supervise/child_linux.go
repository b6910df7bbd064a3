package supervise

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// subreaper makes orphaned descendants this process's children.
func subreaper(on bool) error {
	var arg uintptr
	if on {
		arg = 1
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, arg, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}

// attributes are those of the command's process. PDEATHSIG is sent when the thread that
// started the command ends, so the caller's goroutine must be locked to its thread for
// good. It reaches the command alone, and the kernel drops it if that is setuid.
func attributes(cgroup, tty int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setpgid:     true,
		Pdeathsig:   syscall.SIGKILL,
		Foreground:  tty >= 0,
		Ctty:        max(tty, 0),
		UseCgroupFD: cgroup >= 0,
		CgroupFD:    max(cgroup, 0),
	}
}

// siginfo is siginfo_t as waitid fills it in.
type siginfo struct {
	signo, errno, code int32
	_                  [unsafe.Sizeof(uintptr(0))/4 - 1]int32
	pid                int32
	uid                uint32
	status             int32
	_                  [128]byte
}

// waitid does not block; pid is 0 when there is nothing to tell.
func waitid(kind, id, options int) (info siginfo, err error) {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, uintptr(kind), uintptr(id),
			uintptr(unsafe.Pointer(&info)), uintptr(options|unix.WNOHANG), 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return siginfo{}, errno
		}
		return info, nil
	}
}

// change is what became of a process since the last look.
type change struct {
	exited    bool           // and is not reaped
	stopped   syscall.Signal // it is stopped, by this signal
	continued bool           // it goes on after a stop
}

// peekChild never reaps.
func peekChild(pid int) change {
	var c change
	for {
		info, err := waitid(unix.P_PID, pid, unix.WSTOPPED|unix.WCONTINUED)
		if err != nil || info.pid == 0 {
			break
		}
		c.stopped, c.continued = 0, info.code == cldContinued
		if !c.continued {
			c.stopped = syscall.Signal(info.status)
		}
	}
	info, err := waitid(unix.P_PID, pid, unix.WEXITED|unix.WNOWAIT)
	c.exited = err != nil || info.pid != 0
	return c
}

// cldContinued is CLD_CONTINUED.
const cldContinued = 6

// reapOthers reaps adopted children that have ended, but not keep. It stops at
// keep where that has ended itself.
func reapOthers(keep int) {
	for {
		info, err := waitid(unix.P_ALL, 0, unix.WEXITED|unix.WNOWAIT|unix.WALL)
		if err != nil || info.pid == 0 || int(info.pid) == keep {
			return
		}
		_, _ = unix.Wait4(int(info.pid), nil, unix.WNOHANG|unix.WALL, nil)
	}
}

// reap reaps pid if it has ended.
func reap(pid int) (ws syscall.WaitStatus, ok bool) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(pid, &status, unix.WNOHANG|unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return syscall.WaitStatus(status), err == nil && got == pid
	}
}
