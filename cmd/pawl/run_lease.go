package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/supervise"
)

const (
	// connectMin and connectMax bound the wait for a server before there is a
	// session.
	connectMin = 3 * time.Second
	connectMax = 10 * time.Second
	// partMax bounds what is done after a signal ended the wait, partingMax the
	// release at the end.
	partMax    = 700 * time.Millisecond
	partingMax = 2 * time.Second
	// activeTTLUsual stands in for a server's that did not tell its own.
	activeTTLUsual = 3 * time.Second
)

// running is a run from its first request to its exit code.
type running struct {
	*runFlags
	words   *words
	signals <-chan os.Signal
}

func runUnderLease(cmd *cobra.Command, v *runFlags) error {
	caught := supervise.Catch()
	defer signal.Stop(caught)
	r := &running{runFlags: v, words: speak(os.Stderr), signals: caught}
	outcome, err := r.run(cmd.Context())
	if err != nil && !v.json {
		r.words.say(cmd.CommandPath() + ": " + textOf(err))
	}
	if v.json {
		r.event("ended", map[string]any{"outcome": outcome, "error": textOf(err)})
	}
	v.report(outcome)
	r.words.end()
	return &exitError{code: outcome.Code}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	// Errors that were joined are lines of their own.
	return strings.ReplaceAll(strings.TrimPrefix(err.Error(), "pawl: "), "\n", ": ")
}

func (r *running) event(what string, with map[string]any) {
	with["event"], with["name"] = what, r.name
	if line, err := json.Marshal(with); err == nil {
		r.words.say(string(line))
	}
}

// notice tells what happens beside the ordinary.
func (r *running) notice(line string) {
	switch {
	case r.quiet:
	case r.json:
		r.event("notice", map[string]any{"text": line})
	default:
		r.words.say("pawl run: " + line)
	}
}

func (r *running) run(ctx context.Context) (supervise.Outcome, error) {
	if _, err := supervise.Find(r.args[0], os.Environ()); err != nil {
		var start *supervise.StartError
		errors.As(err, &start)
		return start.Outcome(), err
	}
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := r.watchSignals(stop)
	client, lease, err := r.acquire(waiting)
	if sig := ended(); sig != 0 {
		// Whatever was granted meanwhile is given back with the session.
		parting(client, partMax)
		return supervise.Interrupted(sig), nil
	}
	if err != nil {
		parting(client, partMax)
		return r.notAcquired(err)
	}
	defer parting(client, partingMax)

	f := lease.Fence()
	if r.json && !r.quiet {
		r.event("acquired", map[string]any{"fencing_token": lease.Token(), "fence": f.Token, "cell": f.Cell})
	}
	followed, err := supervise.Follow(lease, r.ttl.value)
	if err != nil {
		return supervise.Failed(supervise.CodeNotExecutable, supervise.ReasonNotStarted), err
	}
	defer followed.Stop()
	return supervise.Run(ctx, supervise.Job{
		Args: r.args,
		Env: supervise.Environ(os.Environ(), "PAWL_NAME="+r.name, "PAWL_FENCING_TOKEN="+lease.Token().String(),
			"PAWL_FENCE="+f.Token.String(), "PAWL_CELL="+f.Cell),
		Signal:    signalOf(r.signal),
		KillAfter: r.killAfter.value,
		Margin:    supervise.Margin(r.ttl.value),
		Contain:   supervise.Contain(r.contain.value),
		Signals:   r.signals,
		Notice:    r.notice,
	}, followed)
}

// watchSignals has a signal end the wait for the lease. What it returns ends the
// watching, for the command to get the signals from then on, and tells which
// signal it was; 0: none.
func (r *running) watchSignals(end context.CancelCauseFunc) func() syscall.Signal {
	over, got := make(chan struct{}), make(chan syscall.Signal, 1)
	go func() {
		defer close(got)
		for {
			select {
			case s := <-r.signals:
				switch sig, _ := s.(syscall.Signal); sig {
				case syscall.SIGUSR1, syscall.SIGUSR2:
					// For the command, which there is none of yet.
				case syscall.SIGTSTP:
					_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
				default:
					got <- sig
					end(&signalError{sig})
					return
				}
			case <-over:
				return
			}
		}
	}()
	return func() syscall.Signal {
		close(over)
		return <-got
	}
}

// acquire waits for the lease as long as it was told.
func (r *running) acquire(ctx context.Context) (*pawl.Client, *pawl.Lease, error) {
	patience := connectMax
	if r.nonblock || r.wait.given {
		patience = min(max(r.wait.value, connectMin), connectMax)
	}
	connecting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := pawl.Dial(connecting, r.servers, pawl.Options{TTL: r.ttl.value, Label: r.label})
	if err != nil {
		return nil, nil, err
	}
	if !r.quiet {
		go r.warn(ctx)
	}
	if r.nonblock || r.wait.given && r.wait.value == 0 {
		l, err := client.TryAcquire(ctx, r.name)
		return client, l, err
	}
	if r.wait.given {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, r.wait.value)
		defer done()
	}
	l, err := client.Acquire(ctx, r.name)
	return client, l, err
}

// warn says when every take-over would end the command.
func (r *running) warn(ctx context.Context) {
	activeTTL := activeTTLUsual
	c := &client{servers: r.servers, conns: map[string]*grpc.ClientConn{}}
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	_ = c.call(ctx, 0, func(ctx context.Context, l linkpb.LinkClient, _ bool) error {
		s, err := l.Status(ctx, &linkpb.StatusRequest{})
		if err == nil && s.GetActiveTtlNano() > 0 {
			activeTTL = time.Duration(s.GetActiveTtlNano())
		}
		return err
	})
	if ctx.Err() == nil && !supervise.RidesOutTakeover(r.ttl.value, r.killAfter.value, activeTTL) {
		r.notice(fmt.Sprintf("a TTL of %v with a --kill-after of %v does not cover a take-over (%v): each will end the command",
			r.ttl.value, r.killAfter.value, activeTTL+2*time.Second))
	}
}

// notAcquired finds the code for why there is no lease. Whatever it was, the
// command was not started.
func (r *running) notAcquired(err error) (supervise.Outcome, error) {
	var held *pawl.HeldError
	switch {
	case errors.As(err, &held):
		return supervise.Failed(r.conflict, supervise.ReasonNotAcquired),
			fmt.Errorf("%s is held by %s (%s) with token %d since %s", shown(r.name), shown(held.Label), shown(held.Handle), held.Token, held.Since.Format(time.RFC3339))
	case errors.Is(err, pawl.ErrDenied):
		return supervise.Failed(supervise.CodeDenied, supervise.ReasonDenied), err
	case errors.Is(err, pawl.ErrInvalid):
		return supervise.Failed(supervise.CodeUsage, supervise.ReasonUsage), err
	case errors.Is(err, pawl.ErrUnavailable):
		return supervise.Failed(supervise.CodeUnreachable, supervise.ReasonUnreachable), err
	case errors.Is(err, context.DeadlineExceeded):
		return supervise.Failed(r.conflict, supervise.ReasonNotAcquired), fmt.Errorf("%s was not granted within %v", shown(r.name), r.wait.value)
	case errors.Is(err, pawl.ErrExhausted), errors.Is(err, pawl.ErrConflict):
		return supervise.Failed(r.conflict, supervise.ReasonNotAcquired), err
	}
	return supervise.Failed(supervise.CodeUnreachable, supervise.ReasonUnreachable), err
}

// parting closes a client, which releases its lease, within a bound: the server
// may not answer any more.
func parting(c *pawl.Client, within time.Duration) {
	if c == nil {
		return
	}
	late, cancel := boundedBy(within)
	defer cancel()
	done := make(chan struct{})
	go func() {
		_ = c.Close() // the session ends by itself
		close(done)
	}()
	select {
	case <-done:
	case <-late.Done():
	}
}
