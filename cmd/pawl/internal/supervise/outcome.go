//go:build unix

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of `pawl run` itself. Every other code is the command's, or 128+n
// where signal n ended it.
const (
	CodeUsage         = 64  // flags or arguments make no sense
	CodeUnreachable   = 69  // no server answered
	CodeLost          = 70  // the lease was lost; wins over the command's code
	CodeNotAcquired   = 75  // not granted in time
	CodeDenied        = 77  // the server refused the caller
	CodeNotExecutable = 126 // the command is there and could not be run
	CodeNotFound      = 127 // there is no such command
)

// Values of Outcome.From: whose verdict the exit code is.
const (
	FromPawl  = "pawl"
	FromChild = "child"
)

// Values of Outcome.Reason.
const (
	ReasonExited        = "exited"         // the command ended by itself
	ReasonSignaled      = "signaled"       // a signal ended the command
	ReasonUsage         = "usage"          // CodeUsage
	ReasonUnreachable   = "unreachable"    // CodeUnreachable
	ReasonLost          = "lease_lost"     // CodeLost; with Child nil it never started
	ReasonBroken        = "lease_broken"   // CodeLost: the holder was asked to let go, and did
	ReasonMaxHold       = "max_hold"       // CodeLost: the command ran for as long as it may, and was ended
	ReasonNotAcquired   = "not_acquired"   // CodeNotAcquired, or the code of -E
	ReasonNotClaimed    = "not_claimed"    // a code of "pawl guard": a guard could not be claimed
	ReasonDenied        = "denied"         // CodeDenied
	ReasonNotExecutable = "not_executable" // CodeNotExecutable
	ReasonNotFound      = "not_found"      // CodeNotFound
	ReasonNotStarted    = "not_started"    // CodeNotExecutable: the fault is not the command's
	ReasonInterrupted   = "interrupted"    // 128+n: a signal came before the command was started
	ReasonWatcherGone   = "watcher_gone"   // 128+n: the watcher died and all was killed
)

// Outcome is how a run came out, and the line that --status-fd gets.
type Outcome struct {
	Code   int    `json:"code"`
	From   string `json:"from"`
	Reason string `json:"reason"`
	// Child is how the command itself ended; nil where it was never started.
	Child *Child `json:"child"`
}

// Child is how the command ended: by a code, or by a signal. Neither: it was
// started and has ended, and nobody knows how.
type Child struct {
	Code   *int   `json:"code"`   // nil when a signal ended it, or it is not known
	Signal string `json:"signal"` // "TERM"; empty when it exited, or it is not known
}

// WriteTo writes o as one line of JSON.
func (o Outcome) WriteTo(w io.Writer) (int64, error) {
	line, err := json.Marshal(o)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(append(line, '\n'))
	return int64(n), err
}

// Failed is the outcome of a run that never started its command.
func Failed(code int, reason string) Outcome {
	return Outcome{Code: code, From: FromPawl, Reason: reason}
}

// Interrupted is the outcome of a run that sig ended while it waited.
func Interrupted(sig syscall.Signal) Outcome {
	return Failed(128+int(sig), ReasonInterrupted)
}

// ended is the outcome of a command that ended with ws.
func ended(ws syscall.WaitStatus) Outcome {
	if ws.Signaled() {
		return Outcome{
			Code: 128 + int(ws.Signal()), From: FromChild, Reason: ReasonSignaled,
			Child: &Child{Signal: signalName(ws.Signal())},
		}
	}
	code := ws.ExitStatus()
	return Outcome{Code: code, From: FromChild, Reason: ReasonExited, Child: &Child{Code: &code}}
}

// Death is the signal that the process must die of, after its last messages and the
// release of the lease, instead of exiting with Code; 0: it exits. It is the signal
// that ended the wait, or the command. timeout and sudo do the same, and env and nice
// become the command, so a parent sees a death by the signal.
func (o Outcome) Death() syscall.Signal {
	if o.Reason == ReasonSignaled || o.Reason == ReasonInterrupted {
		return syscall.Signal(o.Code - 128)
	}
	return 0
}

// overruled is o where pawl's verdict wins over the command's.
func (o Outcome) overruled(code int, reason string) Outcome {
	return Outcome{Code: code, From: FromPawl, Reason: reason, Child: o.Child}
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return fmt.Sprintf("%d", int(sig))
}

// StartError says why a command was not started.
type StartError struct {
	Command string
	Err     error
}

func (e *StartError) Error() string { return e.Command + ": " + e.Err.Error() }

func (e *StartError) Unwrap() error { return e.Err }

// Outcome gives 127 for a command that is not there and 126 for one that cannot
// be run, as a shell does. A script whose interpreter is missing is there.
func (e *StartError) Outcome() Outcome {
	var errno syscall.Errno
	switch {
	case errors.Is(e.Err, errNoCommand):
		return Failed(CodeNotFound, ReasonNotFound)
	case errors.Is(e.Err, fs.ErrPermission), errors.Is(e.Err, fs.ErrNotExist),
		errors.As(e.Err, &errno) && (errno == syscall.ENOEXEC || errno == syscall.EISDIR || errno == syscall.ENOTDIR || errno == syscall.E2BIG || errno == syscall.ETXTBSY):
		return Failed(CodeNotExecutable, ReasonNotExecutable)
	default:
		return Failed(CodeNotExecutable, ReasonNotStarted)
	}
}
