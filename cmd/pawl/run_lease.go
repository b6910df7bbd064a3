package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
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
)

// running is a run from its first request to its exit code.
type running struct {
	*runFlags
	words   *words
	signals <-chan os.Signal
	heard   *renewals
	holder  string // of a name that was not granted in time, for the end of a sentence
}

func runUnderLease(cmd *cobra.Command, v *runFlags) error {
	caught := supervise.Catch()
	defer signal.Stop(caught)
	r := &running{runFlags: v, words: speak(os.Stderr), signals: caught}
	r.heard = &renewals{running: r, back: make(chan struct{}, 1)}
	r.heard.stops, _ = supervise.WatchStops(v.ttl.value) // without it stops are not told from outages
	defer r.heard.stops.Stop()
	outcome, err := r.run(cmd.Context())
	// With a held name counted as success and --quiet nothing is printed.
	silent := v.quiet && outcome.Code == 0 && outcome.Reason == supervise.ReasonNotAcquired
	if err != nil && !v.json && !silent {
		r.words.say(cmd.CommandPath() + ": " + textOf(err))
	}
	if v.json && !silent {
		r.event("ended", map[string]any{"outcome": outcome, "error": textOf(err)})
	}
	v.report(outcome)
	r.words.end()
	return &exitError{code: outcome.Code, signal: outcome.Death()}
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

func (r *running) verb() string {
	if r.election {
		return "elect"
	}
	return "run"
}

// notice tells what happens beside the ordinary.
func (r *running) notice(line string) {
	if !r.quiet {
		r.alarm(line)
	}
}

// alarm reports an error; it is printed also where only errors are.
func (r *running) alarm(line string) {
	if r.json {
		r.event("notice", map[string]any{"text": line})
	} else {
		r.words.say("pawl " + r.verb() + ": " + line)
	}
}

func (r *running) run(ctx context.Context) (supervise.Outcome, error) {
	if len(r.args) > 0 {
		if _, err := supervise.Find(r.args[0], os.Environ()); err != nil {
			var start *supervise.StartError
			errors.As(err, &start)
			return start.Outcome(), err
		}
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
	r.heard.granted(lease)

	f := lease.Fence()
	if r.json && !r.quiet {
		r.event("acquired", map[string]any{"fencing_token": lease.Token(), "fence": f.Token, "cell": f.Cell})
	}
	if len(r.args) == 0 {
		return r.hold(ctx, lease)
	}
	followed, err := supervise.Follow(lease, r.ttl.value)
	if err != nil {
		return supervise.Failed(supervise.CodeNotExecutable, supervise.ReasonNotStarted), err
	}
	defer followed.Stop()
	outcome, err := supervise.Run(ctx, supervise.Job{
		Args: r.args,
		Env: supervise.Environ(os.Environ(), "PAWL_NAME="+r.name, "PAWL_FENCING_TOKEN="+lease.Token().String(),
			"PAWL_FENCE="+f.Token.String(), "PAWL_CELL="+f.Cell, "PAWL_RESOURCE="+f.Resource,
			"PAWL_SLOT="+strconv.Itoa(lease.Slot())),
		Signal:    signalOf(r.signal),
		KillAfter: r.killAfter.value,
		MaxHold:   r.maxHold.value,
		Margin:    supervise.Margin(r.ttl.value),
		Contain:   supervise.Contain(r.contain.value),
		Signals:   r.signals,
		Notice:    r.notice,
		Losing:    r.alarm,
		Overdue:   r.heard.overdue,
		Ending:    r.heard.end,
	}, followed)
	return r.conclude(lease, outcome), err
}

// conclude releases the lease of a command that has ended. If the server answers that
// the lease was lost, conclude reports that, since it may have happened before the
// command ended:
//
//  1. The lease is broken by force, or its session is ended. The name is granted
//     to another holder.
//  2. The command ends. The server's notice is on its way.
//  3. The answer to the release says that the lease is broken or gone.
//
// A deadline that passes after the command has ended does not undo its work: the
// watcher has read the clock when the command ended. A server that does not answer does
// not undo it either.
func (r *running) conclude(lease *pawl.Lease, o supervise.Outcome) supervise.Outcome {
	if o.From != supervise.FromChild {
		return o
	}
	held := lease.Remaining() > 0
	bounded, cancel := boundedBy(partMax)
	defer cancel()
	said := lease.Release(bounded)
	if !errors.Is(said, pawl.ErrBroken) && !(held && errors.Is(said, pawl.ErrLost)) {
		return o
	}
	r.alarm(textOf(said))
	return supervise.Outcome{Code: supervise.CodeLost, From: supervise.FromPawl, Reason: supervise.ReasonLost, Child: o.Child}
}

// watchSignals ends the wait for the lease when a signal comes. The function that it
// returns stops that, so that later signals go to the command, and returns the signal
// that came; 0: none.
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
	if os.Getenv("PAWL_NAME") == r.name && !r.mode.shared {
		r.notice(fmt.Sprintf("this runs under a lease of %s already (PAWL_NAME): a second one is not granted before the first has ended", shown(r.name)))
	}
	asking := r.cell.client()
	defer asking.close()
	if err := r.probe(ctx, asking); err != nil {
		return nil, nil, err
	}
	r.cell = asking.first()
	patience := connectMax
	if r.nonblock || r.wait.given {
		patience = min(max(r.wait.value, connectMin), connectMax)
	}
	connecting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := r.cell.dial(connecting, pawl.Options{TTL: r.ttl.value, Label: r.label})
	if err != nil {
		return nil, nil, err
	}
	go r.heard.watch(client.Events())
	if r.nonblock || r.wait.given && r.wait.value == 0 {
		l, err := client.TryAcquire(ctx, r.name, r.options()...)
		return client, l, err
	}
	var done context.CancelFunc
	if r.wait.given {
		ctx, done = context.WithTimeout(ctx, r.wait.value)
	} else {
		ctx, done = context.WithCancel(ctx)
	}
	var telling sync.WaitGroup
	defer telling.Wait()
	defer done()
	if !r.quiet {
		telling.Go(func() { r.reportHolder(ctx, asking) })
	}
	var l *pawl.Lease
	if r.election {
		l, err = client.Campaign(ctx, r.name, []byte(r.value), r.options()...)
	} else {
		l, err = client.Acquire(ctx, r.name, r.options()...)
	}
	done()
	telling.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		r.holder = r.askHolder(asking)
	}
	return client, l, err
}

func (r *running) options() []pawl.AcquireOption {
	o := []pawl.AcquireOption{pawl.LockDelay(r.mode.lockDelay.value)}
	if r.mode.shared {
		o = append(o, pawl.Shared())
	}
	if r.mode.slots > 0 {
		o = append(o, pawl.Slots(int(r.mode.slots)))
	}
	return o
}

// notAcquired finds the code for why there is no lease. Whatever it was, the
// command was not started.
func (r *running) notAcquired(err error) (supervise.Outcome, error) {
	var held *pawl.HeldError
	var told *exitError
	switch {
	case errors.As(err, &told):
		return supervise.Failed(told.code, reasonFor[told.code]), err
	case refusedOf(err) != nil:
		code, text := exitOf(err)
		return supervise.Failed(code, reasonFor[code]), errors.New(text)
	case errors.As(err, &held):
		return supervise.Failed(r.conflict, supervise.ReasonNotAcquired),
			fmt.Errorf("%s is held by %s (%s) with token %d since %s", shown(r.name), shown(held.Label), shown(held.Handle), held.Token, held.Since.Format(time.RFC3339))
	case errors.Is(err, pawl.ErrDenied):
		return supervise.Failed(supervise.CodeDenied, supervise.ReasonDenied), err
	case errors.Is(err, pawl.ErrInvalid), errors.Is(err, pawl.ErrConflict):
		// A name that is used otherwise is no matter of waiting, nor of -E.
		return supervise.Failed(supervise.CodeUsage, supervise.ReasonUsage), err
	case errors.Is(err, pawl.ErrExhausted):
		return supervise.Failed(r.conflict, supervise.ReasonNotAcquired), err
	case errors.Is(err, pawl.ErrUnavailable):
		return supervise.Failed(supervise.CodeUnreachable, supervise.ReasonUnreachable), err
	case errors.Is(err, context.DeadlineExceeded):
		return supervise.Failed(r.conflict, supervise.ReasonNotAcquired), fmt.Errorf("%s was not granted within %v%s", shown(r.name), r.wait.value, r.holder)
	}
	return supervise.Failed(supervise.CodeUnreachable, supervise.ReasonUnreachable), err
}

// reasonFor are the reasons of what the search for a server can end with.
var reasonFor = map[int]string{
	exitUsage: supervise.ReasonUsage, exitUnavailable: supervise.ReasonUnreachable, exitDenied: supervise.ReasonDenied,
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
