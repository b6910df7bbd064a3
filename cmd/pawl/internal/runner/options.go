package runner

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
)

// Options is what is run, under which lease, and how. They are checked before Run.
type Options struct {
	Name string
	Args []string // the command; none: an election without one
	Cell client.Target

	// Election: Value is shown to others, and the command is optional.
	Election bool
	Value    string

	Mode      flags.Mode
	Databases []Database     // whose guards are claimed before the command starts
	Nonblock  bool           // one try
	Wait      flags.Duration // for the turn; absent: for ever
	TTL       flags.Duration
	KillAfter flags.Duration // between the request to end and the kill
	MaxHold   flags.Duration // absent: for ever
	Signal    string         // asks the command to end; see SignalOf
	Label     string
	Conflict  int // exit code when the lease is not acquired
	Contain   flags.Choice
	StatusFD  int // gets a line of JSON about the end; negative: none does
	JSON      bool
	Quiet     bool
}

// Report writes how it came out to the descriptor that was given for it.
func (v *Options) Report(o supervise.Outcome) {
	if v.StatusFD >= 0 {
		_, _ = o.WriteTo(os.NewFile(uintptr(v.StatusFD), "status")) // its reader is gone
	}
}

// SignalOf reads TERM, SIGTERM or 15; 0 is none.
func SignalOf(s string) syscall.Signal {
	if n, err := strconv.Atoi(s); err == nil {
		if n > 0 && n < 65 {
			return syscall.Signal(n)
		}
		return 0
	}
	return unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG"))
}
