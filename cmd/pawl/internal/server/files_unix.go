//go:build unix

package server

import "syscall"

// filesMax is how many files this process may have open; 0: unknown. The runtime
// has raised it as far as the system lets it.
func filesMax() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return uint64(l.Cur)
}
