//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package supervise

import "golang.org/x/sys/unix"

const (
	ioctlGetModes = unix.TIOCGETA
	ioctlSetModes = unix.TIOCSETAW
)
