package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	_ "github.com/pawlproject/pawl/cmd/pawl/internal/needsunix"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
	"github.com/pawlproject/pawl/cmd/pawl/internal/termsafe"
	"github.com/pawlproject/pawl/cmd/pawl/internal/tuning"
)

func main() {
	// Before anything looks at signals or arguments; see supervise.
	if len(os.Args) > 1 && os.Args[1] == supervise.WatchCommand {
		os.Exit(supervise.WatcherMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		tuning.SetTimerSlack()
	}
	outliveReaders()
	client.TakeSecrets()
	code, sig := execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
	if sig != 0 {
		signals.Die(sig)
	}
	os.Exit(code)
}

// outliveReaders makes a write to a closed pipe fail instead of ending the program:
// whether its log is read must not decide what it does. It catches the signal and does
// not ignore it, since run's command would inherit an ignored signal.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// watched is the standard output. It notes that nobody reads it any more.
type watched struct {
	io.Writer
	unread atomic.Bool
}

// Write implements io.Writer.
func (o *watched) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		o.unread.Store(true)
	}
	return n, err
}

// execute runs one command and returns its exit code, and the signal that the process
// must die of instead; 0: none. A command whose standard output is closed dies of
// SIGPIPE without a message, as other programs do, but only after its own clean-up.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) (code int, death syscall.Signal) {
	out := &watched{Writer: stdout}
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	code, message := exit.Of(err)
	if death = exit.DeathOf(err); out.unread.Load() && death == 0 {
		return 128 + int(syscall.SIGPIPE), syscall.SIGPIPE
	}
	if message != "" {
		fmt.Fprintf(stderr, "%s: %s\n", cmd.CommandPath(), termsafe.Text(exit.WithoutPasswords(message)))
	}
	return code, death
}
