package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
)

const (
	// connectMin and client.ConnectMax bound the wait for a server before there is a
	// session.
	connectMin = 3 * time.Second
	// partMax bounds what is done after a signal ended the wait.
	partMax = 700 * time.Millisecond
)

// running is a run from its first request to its exit code.
type running struct {
	*Options
	words *words
	// ungranted is what the server granted less than --ride-through asks for.
	ungranted atomic.Int64
	signals   <-chan os.Signal
	heard     *renewals
	guards    guards
	holder    string // of a name that was not granted in time, for the end of a sentence
	// unserved says what the first server that answered waits for; empty: it serves, or
	// knows one that does.
	unserved string
}

// Run acquires the lease, runs the command under it or leads, and says how it came out.
// What it returns has the exit code, or the signal to die of, and no text: all is said.
func Run(cmd *cobra.Command, v *Options) error {
	caught := supervise.Catch()
	defer signal.Stop(caught)
	r := &running{Options: v, words: speak(os.Stderr), signals: caught}
	r.heard = &renewals{running: r, back: make(chan struct{}, 1)}
	r.heard.stops, _ = supervise.WatchStops(v.TTL.Value) // without it stops are not told from outages
	defer r.heard.stops.Stop()
	outcome, err := r.run(cmd.Context())
	// With a held name counted as success and --quiet nothing is printed.
	silent := v.Quiet && outcome.Code == 0 && outcome.Reason == supervise.ReasonNotAcquired
	if err != nil && !v.JSON && !silent {
		r.words.say(cmd.CommandPath() + ": " + exit.Text(err))
	}
	if v.JSON && !silent {
		r.event("ended", map[string]any{"outcome": outcome, "error": exit.Text(err)})
	}
	v.Report(outcome)
	r.words.end()
	return &exit.Error{Code: outcome.Code, Signal: outcome.Death()}
}

func (r *running) event(what string, with map[string]any) {
	with["event"], with["name"] = what, r.Name
	if line, err := json.Marshal(with); err == nil {
		r.words.say(string(line))
	}
}

func (r *running) verb() string {
	if r.Election {
		return "elect"
	}
	return "run"
}

// notice tells what happens beside the ordinary.
func (r *running) notice(line string) {
	if !r.Quiet {
		r.alarm(line)
	}
}

// alarm reports an error; it is printed also where only errors are.
func (r *running) alarm(line string) {
	if r.JSON {
		r.event("notice", map[string]any{"text": line})
	} else {
		r.words.say("pawl " + r.verb() + ": " + line)
	}
}

func (r *running) run(ctx context.Context) (o supervise.Outcome, err error) {
	if len(r.Args) > 0 {
		if _, err := supervise.Find(r.Args[0], os.Environ()); err != nil {
			var start *supervise.StartError
			errors.As(err, &start)
			return start.Outcome(), err
		}
	}
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := r.watchSignals(stop)
	c, lease, err := r.acquire(waiting)
	defer func() { r.guards.close() }()
	if sig := ended(); sig != 0 {
		// Whatever was granted meanwhile is given back with the session.
		client.Part(c, partMax)
		return supervise.Interrupted(sig), nil
	}
	if err != nil {
		client.Part(c, partMax)
		return r.notAcquired(err)
	}
	defer func() {
		// The end of the session would release the lease. One that may ride is left to
		// expire when its command was ended because it was lost: what the command sent may
		// be on its way yet, and those who do not claim must not be let in before it.
		if !(r.mayRide() && o.Reason == supervise.ReasonLost) {
			client.Part(c, client.PartingMax)
		}
	}()
	r.heard.granted(lease)
	r.agree(lease.RideThrough())
	if !r.mayRide() {
		r.guards.close() // only a ride reads their marks
	}

	f := lease.Fence()
	if r.JSON && !r.Quiet {
		r.event("acquired", map[string]any{"fencing_token": lease.Token(), "fence": f.Token, "cell": f.Cell})
	}
	if len(r.Args) == 0 {
		return r.hold(ctx, lease)
	}
	followed, err := r.follow(lease)
	if err != nil {
		return supervise.Failed(supervise.CodeNotExecutable, supervise.ReasonNotStarted), err
	}
	defer followed.Stop()
	outcome, err := supervise.Run(ctx, supervise.Job{
		Args: r.Args,
		Env: supervise.Environ(os.Environ(), "PAWL_NAME="+r.Name, "PAWL_FENCING_TOKEN="+lease.Token().String(),
			"PAWL_FENCE="+f.Token.String(), "PAWL_CELL="+f.Cell, "PAWL_RESOURCE="+f.Resource,
			"PAWL_SLOT="+strconv.Itoa(lease.Slot())),
		Signal:    SignalOf(r.Signal),
		KillAfter: r.KillAfter.Value,
		MaxHold:   r.MaxHold.Value,
		Margin:    supervise.Margin(r.TTL.Value),
		Contain:   supervise.Contain(r.Contain.Value),
		Signals:   r.signals,
		Notice:    r.notice,
		Losing:    r.alarm,
		Overdue:   r.heard.overdue,
		Ending:    r.heard.end,
	}, followed)
	return r.conclude(lease, outcome), err
}

func (r *running) follow(lease *pawl.Lease) (*supervise.Followed, error) {
	if r.mayRide() {
		return supervise.FollowRider(lease, r.TTL.Value, r.KillAfter.Value)
	}
	return supervise.Follow(lease, r.TTL.Value)
}

// mayRide reports whether the lease goes on when no server answers.
func (r *running) mayRide() bool { return r.rideThrough() > 0 }

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
	rode := lease.Riding()
	held := lease.Remaining() > 0 || rode
	bounded, cancel := context.WithTimeout(context.Background(), partMax)
	defer cancel()
	said := lease.Release(bounded)
	if !errors.Is(said, pawl.ErrBroken) && !(held && errors.Is(said, pawl.ErrLost)) {
		if rode && said != nil {
			r.notice(fmt.Sprintf("no server could be told that the lease is released: it expires, and then %s is closed for %v to acquires that do not claim",
				output.Text(r.Name), output.Duration(r.rideThrough())))
		}
		return o
	}
	r.alarm(exit.Text(said))
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
					end(&signals.Error{Signal: sig})
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

// acquire opens the guards that are to be claimed, and waits for the lease as long as it
// was told.
func (r *running) acquire(ctx context.Context) (*pawl.Client, *pawl.Lease, error) {
	if err := r.openGuards(); err != nil {
		return nil, nil, err
	}
	if os.Getenv("PAWL_NAME") == r.Name && !r.Mode.Shared {
		r.notice(fmt.Sprintf("this runs under a lease of %s already (PAWL_NAME): a second one is not granted before the first has ended", output.Text(r.Name)))
	}
	asking := r.Cell.Client()
	defer asking.Close()
	if err := r.probe(ctx, asking); err != nil {
		return nil, nil, err
	}
	r.Cell = asking.AnsweredFirst()
	patience := client.ConnectMax
	if r.Nonblock || r.Wait.Given {
		patience = min(max(r.Wait.Value, connectMin), client.ConnectMax)
	}
	connecting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := r.Cell.Dial(connecting, pawl.Options{TTL: r.TTL.Value, Label: r.Label})
	if err != nil && r.unserved != "" && ctx.Err() == nil && errors.Is(err, pawl.ErrUnavailable) {
		return nil, nil, exit.Failed(exit.CodeUnavailable, "no server serves: %s", r.unserved)
	}
	if err != nil {
		return nil, nil, err
	}
	go r.heard.watch(c.Events())
	if r.Nonblock || r.Wait.Given && r.Wait.Value == 0 {
		l, err := c.TryAcquire(ctx, r.Name, r.options()...)
		return c, l, err
	}
	var done context.CancelFunc
	if r.Wait.Given {
		ctx, done = context.WithTimeout(ctx, r.Wait.Value)
	} else {
		ctx, done = context.WithCancel(ctx)
	}
	var telling sync.WaitGroup
	defer telling.Wait()
	defer done()
	if !r.Quiet {
		telling.Go(func() { r.reportHolder(ctx, asking) })
	}
	var l *pawl.Lease
	if r.Election {
		l, err = c.Campaign(ctx, r.Name, []byte(r.Value), r.options()...)
	} else {
		l, err = c.Acquire(ctx, r.Name, r.options()...)
	}
	done()
	telling.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		r.holder = r.askHolder(asking)
	}
	return c, l, err
}

func (r *running) options() []pawl.AcquireOption {
	o := []pawl.AcquireOption{pawl.LockDelay(r.Mode.LockDelay.Value)}
	if r.Mode.Shared {
		o = append(o, pawl.Shared())
	}
	if r.Mode.Slots > 0 {
		o = append(o, pawl.Slots(int(r.Mode.Slots)))
	}
	if r.Mode.Claims {
		o = append(o, pawl.Claims())
	}
	if r.mayRide() {
		o = append(o, pawl.RideThrough(r.rideThrough()))
	}
	return append(o, pawl.Claim(r.guards.claimers()...))
}

// notAcquired finds the code for why there is no lease. Whatever it was, the
// command was not started.
func (r *running) notAcquired(err error) (supervise.Outcome, error) {
	var held *pawl.HeldError
	var told *exit.Error
	var claim *claimError
	switch {
	case errors.As(err, &claim) && claim.lost():
		return supervise.Failed(supervise.CodeLost, supervise.ReasonLost), err
	case errors.As(err, &claim):
		code, _ := exit.Of(claim.told)
		return supervise.Failed(code, supervise.ReasonNotClaimed), err
	case errors.As(err, &told):
		return supervise.Failed(told.Code, reasonFor[told.Code]), err
	case exit.RefusalOf(err) != nil:
		code, text := exit.Of(err)
		return supervise.Failed(code, reasonFor[code]), errors.New(text)
	case errors.As(err, &held) && held.Token == 0 && !errors.Is(err, context.DeadlineExceeded):
		// Nobody holds it: the name is closed, or others wait for it.
		return supervise.Failed(r.Conflict, supervise.ReasonNotAcquired), err
	case errors.As(err, &held) && held.Token != 0:
		return supervise.Failed(r.Conflict, supervise.ReasonNotAcquired),
			fmt.Errorf("%s is held by %s (%s) with token %d since %s", output.Text(r.Name), output.Text(held.Label), output.Text(held.Handle), held.Token, held.Since.Format(time.RFC3339))
	case errors.Is(err, pawl.ErrDenied):
		return supervise.Failed(supervise.CodeDenied, supervise.ReasonDenied), err
	case errors.Is(err, pawl.ErrInvalid), errors.Is(err, pawl.ErrConflict):
		// A name that is used otherwise is no matter of waiting, nor of -E.
		return supervise.Failed(supervise.CodeUsage, supervise.ReasonUsage), err
	case errors.Is(err, pawl.ErrExhausted):
		return supervise.Failed(r.Conflict, supervise.ReasonNotAcquired), err
	case errors.Is(err, pawl.ErrUnavailable):
		return supervise.Failed(supervise.CodeUnreachable, supervise.ReasonUnreachable), err
	case errors.Is(err, context.DeadlineExceeded):
		return supervise.Failed(r.Conflict, supervise.ReasonNotAcquired), fmt.Errorf("%s was not granted within %v%s", output.Text(r.Name), r.Wait.Value, r.holder)
	}
	return supervise.Failed(supervise.CodeUnreachable, supervise.ReasonUnreachable), err
}

// reasonFor are the reasons of what the search for a server can end with.
var reasonFor = map[int]string{
	exit.CodeUsage: supervise.ReasonUsage, exit.CodeUnavailable: supervise.ReasonUnreachable, exit.CodeDenied: supervise.ReasonDenied,
}
