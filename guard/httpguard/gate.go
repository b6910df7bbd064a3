package httpguard

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlproject/pawl/guard"
)

const (
	// resourcesMax bounds the resources that a gate has in memory. Idle ones are
	// forgotten there, the one that was used least recently first.
	resourcesMax = 16_384
	// requestsMax bounds the requests and claims that are inside a gate, and waitersMax
	// those of them that wait for one resource.
	requestsMax = 8_192
	waitersMax  = 256
	// forgetTries is how many idle resources are looked at for one that may be forgotten.
	forgetTries = 64
	// marksMax bounds one question to the marks.
	marksMax = 10 * time.Second
	// marksTries is how many questions to the marks one request begins. Marks that are not
	// from a copy that lags answer the second one for good.
	marksTries = 8

	// LingerDefault and WaitDefault are used where the options say nothing.
	LingerDefault = time.Minute
	WaitDefault   = 10 * time.Second
)

// ErrBusy: nothing was done, and it may be repeated. Requests under a lower token have not
// ended, the gate is full, the marks cannot be read or written, or the upstream cannot be
// reached. A claim that is busy may have raised the mark already: lower tokens are refused
// then, and the claim is to be repeated until it succeeds.
var ErrBusy = errors.New("httpguard: busy, nothing was done")

// ErrSuperseded is the cause with which the context of a request in flight ends when a
// higher token claims its resource.
var ErrSuperseded = errors.New("httpguard: a higher fencing token has claimed the resource")

// busyError is ErrBusy with its reason and the time after which it is worth a try.
type busyError struct {
	why   string
	after time.Duration
	err   error
}

func (e *busyError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("%v: %s: %v", ErrBusy, e.why, e.err)
	}
	return fmt.Sprintf("%v: %s", ErrBusy, e.why)
}

// Is makes errors.Is match ErrBusy, and nothing of what the marks said: what is unknown of
// them is not unknown of the request, which did not run.
func (e *busyError) Is(target error) bool { return target == ErrBusy }

// Options say how a gate and what stands behind it work. The zero value is for a service
// that guards itself.
type Options struct {
	// Cell is the id of the cell of fences that name none; empty: [NoCell].
	Cell string
	// Resource is that of requests that name none; empty: they are refused.
	Resource string
	// GuardReads has GET, HEAD and OPTIONS without a fence refused like the rest. Without
	// it they pass by the guard, as they change nothing by HTTP's rules. With a fence they
	// are guarded in any case.
	GuardReads bool
	// Wait is how long a request or a claim waits for requests under lower tokens;
	// 0: [WaitDefault].
	Wait time.Duration
	// Linger is the longest time from the last byte of a request until the upstream has
	// answered or given it up, however it was lost; 0: [LingerDefault]. A proxy waits that
	// long for an answer, and as long after what it lost sight of.
	Linger time.Duration
	// Crashed says that an earlier process with the same marks may have left requests in
	// flight: it did not stop as [Gate.Shut] says is clean.
	Crashed bool
}

// Gate decides which request may run: a guard with a barrier, in one process, for what
// lies behind it. It is a [guard.Claimer] and a [guard.Seer].
type Gate struct {
	o     Options
	marks Marks

	mu    sync.Mutex
	lines map[string]*kept
	idle  *list.List // of *kept, in no use, the least recently used first
	// closed is until when requests of an earlier process may be in flight.
	closed time.Time
	inside int
	// flying and waiting are the sums over all lines, for Stats.
	flying, waiting int
	shut            bool
	ended           chan struct{} // closed, and made anew, whenever a request ends

	counts counts
}

var (
	_ guard.Claimer = (*Gate)(nil)
	_ guard.Seer    = (*Gate)(nil)
)

// kept is a line with what the goroutines that use it need.
type kept struct {
	line
	resource string
	uses     int // goroutines that look at it, and requests in flight
	waiters  int
	place    *list.Element // in idle; nil: it is in use
	// work is the question to the marks that is under way; nil: none is.
	work *work
	// changed is closed, and made anew, when a request has ended or the marks have answered.
	changed chan struct{}
}

// work is one question to the marks. err may be read once done is closed.
type work struct {
	done chan struct{}
	err  error
}

// visit is a request in flight.
type visit struct {
	gate   *Gate
	at     *kept
	ctx    context.Context
	cancel context.CancelCauseFunc
	left   sync.Once
}

// NewGate returns a gate over marks, which it does not close.
func NewGate(marks Marks, o Options) *Gate {
	if o.Wait <= 0 {
		o.Wait = WaitDefault
	}
	if o.Linger <= 0 {
		o.Linger = LingerDefault
	}
	g := &Gate{o: o, marks: marks, lines: map[string]*kept{}, idle: list.New(), ended: make(chan struct{})}
	if o.Crashed {
		g.closed = now().Add(o.Linger)
	}
	return g
}

// now reads the clock by which the proxy waits for what it lost sight of.
func now() time.Time {
	return time.Now() //tidy:clock the upstream's bound is a promise in time, and nothing else tells of its end
}

// Claim raises the mark of f.Resource to f, and returns nil when no request with a lower
// token is in flight any more: see [guard.Claimer]. Otherwise the error is one of guard's,
// [ErrBusy], or that of ctx. In these two cases the mark may have been raised.
func (g *Gate) Claim(ctx context.Context, f guard.Fence) error {
	return g.claim(ctx, f, g.o.Wait)
}

func (g *Gate) claim(ctx context.Context, f guard.Fence, wait time.Duration) error {
	_, err := g.enter(ctx, f, wait, false)
	if err == nil {
		g.counts.claimed.Add(1)
	}
	return err
}

// Seen returns the mark of a resource, see [guard.Seer].
func (g *Gate) Seen(ctx context.Context, resource string) (guard.State, error) {
	s, err := g.marks.Seen(ctx, resource)
	if err != nil && ctx.Err() == nil {
		return guard.State{}, &busyError{why: "the mark cannot be read", err: err}
	}
	return s, err
}

// enter lets a request in, or, with run false, waits until it could be. It waits no longer
// than wait for lower requests.
func (g *Gate) enter(ctx context.Context, f guard.Fence, wait time.Duration, run bool) (v *visit, err error) {
	defer func() {
		if err != nil {
			g.counts.refused(err)
		}
	}()
	if err := f.Validate(); err != nil {
		return nil, err
	}
	k, err := g.take(f.Resource)
	if err != nil {
		return nil, err
	}
	v, err = g.stand(ctx, k, f, wait, run)
	if v == nil {
		g.drop(k)
	}
	return v, err
}

// stand waits for its turn. The visit that it returns keeps the use of k.
func (g *Gate) stand(ctx context.Context, k *kept, f guard.Fence, most time.Duration, run bool) (*visit, error) {
	patience := time.NewTimer(most) //tidy:clock how long a request waits decides nothing
	defer patience.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	waited, asked := false, 0
	for {
		// A request whose caller is gone must not run: the next holder may be in already.
		if err := ctx.Err(); err != nil {
			return nil, ended(ctx)
		}
		var after time.Duration
		if k.work == nil {
			at := now()
			step, verdict := k.next(f.Mark(), at)
			switch step {
			case bounce:
				return nil, verdict.Err(f.Resource, k.state, f.Mark())
			case pass:
				if !run {
					return nil, nil
				}
				return g.begin(ctx, k), nil
			case wait:
				if !waited {
					waited = true
					g.counts.drains.Add(1)
				}
				after = k.after(at)
			default:
				if asked++; asked > marksTries {
					return nil, &busyError{why: "the marks contradict themselves", after: time.Second}
				}
				g.start(k, step, f)
			}
		}
		if err := g.await(ctx, k, after, patience.C); err != nil {
			return nil, err
		}
	}
}

// await waits until k is worth another look: the marks have answered, a request has ended,
// some time has passed (0: none is known), or ctx has ended. It is called with the lock
// held, and gives it up meanwhile. The error is ErrBusy: patience came first, the marks
// did not answer, or too many wait already.
func (g *Gate) await(ctx context.Context, k *kept, after time.Duration, patience <-chan time.Time) error {
	if k.waiters >= waitersMax {
		return &busyError{why: "too many requests wait for the resource", after: time.Second}
	}
	asked, changed := k.work, k.changed
	if asked != nil {
		// The marks have a bound of their own, which a disk that hangs does not keep.
		t := time.NewTimer(2 * marksMax) //tidy:clock how long a request waits decides nothing
		defer t.Stop()
		changed, patience = asked.done, t.C
	}
	var passed <-chan time.Time
	if after > 0 {
		t := time.NewTimer(after) //tidy:clock the line is looked at again, and decides by now
		defer t.Stop()
		passed = t.C
	}
	k.waiters++
	g.waiting++
	g.mu.Unlock()
	impatient := false
	select {
	case <-changed:
	case <-passed:
	case <-ctx.Done():
	case <-patience:
		impatient = true
	}
	g.mu.Lock()
	k.waiters--
	g.waiting--
	switch {
	case asked != nil && isClosed(asked.done) && asked.err != nil:
		return &busyError{why: "the marks do not answer", after: time.Second, err: asked.err}
	case impatient && asked != nil:
		return &busyError{why: "the marks do not answer", after: time.Second}
	case impatient:
		return &busyError{why: "requests under a lower token have not ended, or may not have", after: max(k.after(now()), time.Second)}
	}
	return nil
}

// ended returns an error that is both the context's and its cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// start asks the marks. It is called with the lock held and does not wait: the answer is not
// lost when the request that it was asked for is given up.
func (g *Gate) start(k *kept, s step, f guard.Fence) {
	w := &work{done: make(chan struct{})}
	k.work = w
	k.uses++
	g.inside++
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), marksMax)
		defer cancel()
		apply, err := g.ask(ctx, s, f)
		g.mu.Lock()
		if err == nil {
			apply(k)
		} else {
			// What the marks hold now is unknown. Nothing passes until it is.
			k.loaded = false
			g.counts.failures.Add(1)
		}
		w.err, k.work = err, nil
		close(w.done)
		k.wake() // what waits for lower requests may be the lower one now
		g.mu.Unlock()
		g.drop(k)
	}()
}

// ask asks the marks, and returns what follows from their answer.
func (g *Gate) ask(ctx context.Context, s step, f guard.Fence) (apply func(*kept), err error) {
	drains, _ := g.marks.(Drains)
	switch s {
	case load:
		state, err := g.marks.Seen(ctx, f.Resource)
		if err != nil {
			return nil, err
		}
		// What has no mark was never let in: nothing of it is in flight.
		admitted := guard.Token(0)
		if drains != nil && state.Seen != 0 {
			if admitted, err = drains.Admitted(ctx, f.Resource); err != nil {
				return nil, err
			}
		}
		return func(k *kept) { k.learn(state, admitted, g.closed) }, nil
	case raise:
		err := g.marks.Claim(ctx, f)
		if errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrForeign) {
			// The marks know better. The request is judged by what they say.
			return func(k *kept) { k.loaded = false }, nil
		}
		if err != nil {
			return nil, err
		}
		return func(k *kept) {
			k.state, _ = guard.Decide(guard.Monotonic, k.state, f.Mark())
			g.counts.raised.Add(1)
			k.supersede()
		}, nil
	default:
		if drains != nil {
			if err := drains.Admit(ctx, f); err != nil {
				return nil, err
			}
		}
		return func(k *kept) { k.admitted = f.Token }, nil
	}
}

// learn takes over what the marks say. What is in flight in this process is known already,
// and the token of that is the last that was admitted.
func (l *line) learn(s guard.State, admitted guard.Token, closed time.Time) {
	l.loaded, l.state = true, s
	if l.flying != nil {
		// The mark may have risen by a claim whose answer was lost.
		if s.Seen > l.admitted {
			l.supersede()
		}
		return
	}
	l.flying, l.admitted = map[*visit]struct{}{}, admitted
	if s.Seen != 0 {
		l.until = closed
	}
}

// supersede tells all that is in flight that a higher token has claimed.
func (l *line) supersede() {
	for v := range l.flying {
		v.cancel(ErrSuperseded)
	}
}

// wake makes all that wait look again.
func (k *kept) wake() {
	if k.waiters > 0 {
		close(k.changed)
		k.changed = make(chan struct{})
	}
}

// begin notes a request as in flight. It is called with the lock held.
func (g *Gate) begin(ctx context.Context, k *kept) *visit {
	v := &visit{gate: g, at: k}
	v.ctx, v.cancel = context.WithCancelCause(ctx)
	k.flying[v] = struct{}{}
	g.flying++
	g.counts.admitted.Add(1)
	return v
}

// leave notes that a request has ended, or will have until a time; zero: it has.
func (v *visit) leave(until time.Time) {
	v.left.Do(func() {
		g, k := v.gate, v.at
		v.cancel(nil)
		g.mu.Lock()
		delete(k.flying, v)
		g.flying--
		if until.After(k.until) {
			k.until = until
			g.counts.tainted.Add(1)
		}
		k.wake()
		g.mu.Unlock()
		g.drop(k)
	})
}
