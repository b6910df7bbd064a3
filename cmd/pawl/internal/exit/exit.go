package exit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
	"github.com/pawlproject/pawl/internal/bounds"
)

// Exit codes. Those of the child of "pawl run" pass through beside them; its
// --status-fd tells which is which.
const (
	CodeOther       = 1                         // refused for a reason without a code of its own
	CodeData        = 65                        // the data folder, log or database does not hold what it should; a restart will not help
	CodeUsage       = supervise.CodeUsage       // an argument or a request that is invalid, or in conflict
	CodeUnavailable = supervise.CodeUnreachable // no server answered, or none serves
	CodeLost        = supervise.CodeLost        // the lease or session is gone
	CodeNotAcquired = supervise.CodeNotAcquired // held by somebody else, or too much asked at once
	CodeDenied      = supervise.CodeDenied      // not allowed
)

// Help is what the help of a command about leases says of exit codes.
const Help = `Exit codes: 0 done, 64 invalid usage, 69 no server reachable, 70 lease gone,
75 not acquired, 77 not allowed, 1 refused for another reason.`

// AskHelp is Help for commands that neither have a lease nor want one.
const AskHelp = `Exit codes: 0 done, 64 invalid usage, 69 no server reachable, 77 not allowed,
1 refused for another reason.`

// Error ends the program with a code after its message was printed. An empty
// message prints nothing.
type Error struct {
	Code    int // one of the codes above, or a command's
	Message string
	// Signal is what the program dies of instead of exiting; 0: it exits.
	Signal syscall.Signal
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Failed is an error that ends the program with a code and a message.
func Failed(code int, format string, a ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, a...)}
}

// Of finds the code and the text for what went wrong.
func Of(err error) (code int, message string) {
	var e *Error
	var s *signals.Error
	switch {
	case err == nil:
		return 0, ""
	case errors.As(err, &e):
		return e.Code, e.Message
	case errors.As(err, &s):
		return s.Code(), ""
	}
	if r := RefusalOf(err); r != nil {
		code := CodeOf(r.GetReason())
		if r.GetReason() == linkpb.Reason_REASON_UNAUTHENTICATED {
			return code, r.GetMessage() + " (--credential-file, or --cert and --key)"
		}
		return code, InFlags(r.GetMessage())
	}
	switch st := status.Convert(err); st.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		return CodeUnavailable, st.Message()
	case codes.Unimplemented:
		return CodeUnavailable, "the server does not know this request; it may be older than this program"
	}
	return CodeOther, err.Error()
}

// DeathOf finds the signal that the program dies of; 0: it exits with its code. A
// waiting parent, a shell in a loop for instance, sees then that it was interrupted,
// which an exit with 128+n does not tell.
func DeathOf(err error) syscall.Signal {
	var e *Error
	var s *signals.Error
	switch {
	case errors.As(err, &e):
		return e.Signal
	case errors.As(err, &s):
		return s.Signal
	}
	return 0
}

// WithoutPasswords takes the passwords of DSNs out of a message: a DSN may have
// been given in the wrong place, and the complaint quotes it.
func WithoutPasswords(message string) string {
	message = passwordInURL.ReplaceAllString(message, "${1}xxxxx@")
	return passwordByKeyword.ReplaceAllString(message, "${1}xxxxx")
}

var (
	passwordInURL     = regexp.MustCompile(`(://[^\s:/@]*:)\S*@`)
	passwordByKeyword = regexp.MustCompile(`(?i)(password\s*=\s*)('[^']*'|\S+)`)
)

// CodeOf is the code of a refusal's reason. That of a reason that only a newer server
// has is CodeOther: a refusal is never 0.
func CodeOf(reason linkpb.Reason) int {
	if code, known := reasonCodes[reason]; known {
		return code
	}
	return CodeOther
}

var reasonCodes = map[linkpb.Reason]int{
	linkpb.Reason_REASON_UNSPECIFIED:       CodeOther,
	linkpb.Reason_REASON_INVALID:           CodeUsage,
	linkpb.Reason_REASON_UNAUTHENTICATED:   CodeDenied,
	linkpb.Reason_REASON_DENIED:            CodeDenied,
	linkpb.Reason_REASON_GONE:              CodeLost,
	linkpb.Reason_REASON_HELD:              CodeNotAcquired,
	linkpb.Reason_REASON_CONFLICT:          CodeUsage, // it does not go with what is there, now or later
	linkpb.Reason_REASON_TOKEN_MISMATCH:    CodeOther,
	linkpb.Reason_REASON_EXHAUSTED:         CodeNotAcquired,
	linkpb.Reason_REASON_UNAVAILABLE:       CodeUnavailable,
	linkpb.Reason_REASON_STORE_ROLLED_BACK: CodeOther,
	linkpb.Reason_REASON_CANCELLED:         CodeOther,
}

// RefusalOf finds the refusal in the answer to a call; nil when there is none.
func RefusalOf(err error) *linkpb.Refused {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return nil
	}
	for _, d := range st.Details() {
		if r, ok := d.(*linkpb.RefusedDetail); ok {
			return r.GetRefused()
		}
	}
	return nil
}

// FromSDK finds the code for an error of the SDK. When ctx has ended, its cause is the
// error.
func FromSDK(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, k := range []struct {
		is   error
		code int
	}{
		{pawl.ErrDenied, CodeDenied},
		{pawl.ErrInvalid, CodeUsage},
		{pawl.ErrConflict, CodeUsage},
		{pawl.ErrExhausted, CodeNotAcquired},
		{pawl.ErrUnavailable, CodeUnavailable},
		{context.DeadlineExceeded, CodeUnavailable},
	} {
		if errors.Is(err, k.is) {
			return Failed(k.code, "%s", Text(err))
		}
	}
	return Failed(CodeOther, "%s", Text(err))
}

// Usage refuses how a command was called.
func Usage(cmd *cobra.Command, format string, a ...any) error {
	return Failed(CodeUsage, "%s\n\"%s --help\" shows what it takes.", fmt.Sprintf(format, a...), cmd.CommandPath())
}

// InFlags has a server's message say what to do in flags of the command line.
func InFlags(message string) string {
	return strings.Replace(message, bounds.SayClaims, `and say so by --claims; "pawl run NAME --claim DSN" does both`, 1)
}

// Text is an error as one line, without the name of the SDK in front; empty: there is
// none.
func Text(err error) string {
	if err == nil {
		return ""
	}
	// Errors that were joined are lines of their own.
	return strings.ReplaceAll(InFlags(strings.TrimPrefix(err.Error(), "pawl: ")), "\n", ": ")
}
