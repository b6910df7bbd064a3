package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
)

// Exit codes. Those of the child of "pawl run" pass through beside them; its
// --status-fd tells which is which.
const (
	exitOther       = 1                         // refused for a reason without a code of its own
	exitUsage       = supervise.CodeUsage       // an argument or a request that is invalid, or in conflict
	exitUnavailable = supervise.CodeUnreachable // no server answered, or none serves
	exitLost        = supervise.CodeLost        // the lease or session is gone
	exitNotAcquired = supervise.CodeNotAcquired // held by somebody else, or too much asked at once
	exitDenied      = supervise.CodeDenied      // not allowed
)

const exitHelp = `Exit codes: 0 done, 64 invalid usage, 69 no server reachable, 70 lease gone,
75 not acquired, 77 not allowed, 1 refused for another reason.`

// askHelp is exitHelp for commands that neither have a lease nor want one.
const askHelp = `Exit codes: 0 done, 64 invalid usage, 69 no server reachable, 77 not allowed,
1 refused for another reason.`

// exitError ends the program with a code after its message was printed. An empty
// message prints nothing.
type exitError struct {
	code    int
	message string
	// signal is what the program dies of instead of exiting; 0: it exits.
	signal syscall.Signal
}

func (e *exitError) Error() string { return e.message }

func failed(code int, format string, a ...any) error {
	return &exitError{code: code, message: fmt.Sprintf(format, a...)}
}

// exitOf finds the code and the text for what went wrong.
func exitOf(err error) (code int, message string) {
	var e *exitError
	var s *signalError
	switch {
	case err == nil:
		return 0, ""
	case errors.As(err, &e):
		return e.code, e.message
	case errors.As(err, &s):
		return s.code(), ""
	}
	if r := refusedOf(err); r != nil {
		code, known := codeOf[r.GetReason()]
		if !known {
			code = exitOther
		}
		if r.GetReason() == linkpb.Reason_REASON_UNAUTHENTICATED {
			return code, r.GetMessage() + " (--credential-file, or --cert and --key)"
		}
		return code, r.GetMessage()
	}
	switch st := status.Convert(err); st.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		return exitUnavailable, st.Message()
	case codes.Unimplemented:
		return exitUnavailable, "the server does not know this request; it may be older than this program"
	}
	return exitOther, err.Error()
}

// deathOf returns the signal that the program dies of, or 0 when it exits with its
// code. A waiting parent, such as a shell in a loop, then sees that it was interrupted;
// an exit with 128+n does not show that.
func deathOf(err error) syscall.Signal {
	var e *exitError
	var s *signalError
	switch {
	case errors.As(err, &e):
		return e.signal
	case errors.As(err, &s):
		return s.signal
	}
	return 0
}

// die ends the process by a signal, without a core: the program has not failed. It
// exits with 128+n where that cannot be, as the first process of a container is not
// killed by a signal of its own.
func die(sig syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // a core is no more than a nuisance
	defaultAction(sig)
	raise(sig)
	os.Exit(128 + int(sig))
}

// withoutPasswords takes the passwords of DSNs out of a message: a DSN may have
// been given in the wrong place, and the complaint quotes it.
func withoutPasswords(message string) string {
	message = passwordInURL.ReplaceAllString(message, "${1}xxxxx@")
	return passwordByKeyword.ReplaceAllString(message, "${1}xxxxx")
}

var (
	passwordInURL     = regexp.MustCompile(`(://[^\s:/@]*:)\S*@`)
	passwordByKeyword = regexp.MustCompile(`(?i)(password\s*=\s*)('[^']*'|\S+)`)
)

// codeOf are the codes of the reasons. One that only a newer server has is
// exitOther: a refusal is never 0.
var codeOf = map[linkpb.Reason]int{
	linkpb.Reason_REASON_UNSPECIFIED:       exitOther,
	linkpb.Reason_REASON_INVALID:           exitUsage,
	linkpb.Reason_REASON_UNAUTHENTICATED:   exitDenied,
	linkpb.Reason_REASON_DENIED:            exitDenied,
	linkpb.Reason_REASON_GONE:              exitLost,
	linkpb.Reason_REASON_HELD:              exitNotAcquired,
	linkpb.Reason_REASON_CONFLICT:          exitUsage, // it does not go with what is there, now or later
	linkpb.Reason_REASON_TOKEN_MISMATCH:    exitOther,
	linkpb.Reason_REASON_EXHAUSTED:         exitNotAcquired,
	linkpb.Reason_REASON_UNAVAILABLE:       exitUnavailable,
	linkpb.Reason_REASON_STORE_ROLLED_BACK: exitOther,
	linkpb.Reason_REASON_CANCELLED:         exitOther,
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "stopped by " + unix.SignalName(e.signal) }

func (e *signalError) code() int { return 128 + int(e.signal) }

// untilSignal returns a context that a signal ends, with the signal as its cause: HUP,
// INT, QUIT and TERM when none are named. A second signal kills the program, whatever
// it waits for. HUP and INT stay ignored if they were ignored when this process was
// started (nohup); Go cannot tell for others.
func untilSignal(ctx context.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
	if len(signals) == 0 {
		signals = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ch := make(chan os.Signal, 1)
	if signals = slices.DeleteFunc(slices.Clone(signals), signal.Ignored); len(signals) > 0 {
		signal.Notify(ch, signals...) // of none it would mean all
	}
	go func() {
		select {
		case s := <-ch:
			if n, ok := s.(syscall.Signal); ok {
				cancel(&signalError{n})
			}
		case <-ctx.Done():
		}
		signal.Stop(ch)
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// onSignal returns a channel that has a value after a signal, until ctx ends.
func onSignal(ctx context.Context, s os.Signal) <-chan struct{} {
	ch, told := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(ch, s)
	go func() {
		defer signal.Stop(ch)
		for {
			select {
			case <-ch:
			case <-ctx.Done():
				return
			}
			select {
			case told <- struct{}{}:
			default:
			}
		}
	}()
	return told
}
