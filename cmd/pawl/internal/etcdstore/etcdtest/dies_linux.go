package etcdtest

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// halts returns when a child that was sent a SIGSTOP has halted, or ended. Until
// then some thread of it may go on, and answer.
func halts(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED, nil) == unix.EINTR {
	}
}
