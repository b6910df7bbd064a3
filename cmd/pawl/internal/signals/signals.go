package signals

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Die ends the process by a signal, without a core: the program has not failed. It
// exits with 128+n where that cannot be, as the first process of a container is not
// killed by a signal of its own.
func Die(sig syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // a core is no more than a nuisance
	defaultAction(sig)
	raise(sig)
	os.Exit(128 + int(sig))
}

// Error is the cause of a context that a signal ended.
type Error struct{ Signal syscall.Signal }

// Error implements error.
func (e *Error) Error() string { return "stopped by " + unix.SignalName(e.Signal) }

// Code is the exit code that a shell shows for a death by the signal.
func (e *Error) Code() int { return 128 + int(e.Signal) }

// Until returns a context that signals end, each as its cause: HUP, INT, QUIT
// and TERM when none are named. A second signal kills the program, whatever it is
// waiting for. Those that were ignored when this process was started stay ignored
// (nohup): HUP and INT; of others Go does not know.
func Until(ctx context.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
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
				cancel(&Error{n})
			}
		case <-ctx.Done():
		}
		signal.Stop(ch)
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// Each returns a channel that has a value after a signal, until ctx ends.
func Each(ctx context.Context, s os.Signal) <-chan struct{} {
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
