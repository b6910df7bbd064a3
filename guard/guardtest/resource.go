package guardtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
)

// Resource is a guarded store under test: for each resource name a list of
// texts that is appended to. Functions may be called by many goroutines.
type Resource struct {
	// Claim is the guard's claim.
	Claim func(ctx context.Context, f guard.Fence) error
	// Append appends text to the list of f.Resource under f.
	Append func(ctx context.Context, f guard.Fence, text string) error
	// Read returns a list in the order in which its texts took effect, without
	// any guard.
	Read func(ctx context.Context, resource string) ([]string, error)
	// Seen returns the mark of a resource (Cell and Seen), the zero State when
	// it has none, as of a [guard.Seer].
	Seen func(ctx context.Context, resource string) (guard.State, error)

	// Begin does all of an Append but the commit; nil where the resource has no
	// transactions. The rules end every transaction they begin.
	Begin func(ctx context.Context, f guard.Fence, text string) (Open, error)
	// Step does an Append and, in the same transaction, moves the offset key of
	// f.Resource from prev to next; nil where the guard keeps no offsets. It needs
	// OffsetOf, which returns where an offset stands.
	Step     func(ctx context.Context, f guard.Fence, key string, prev, next uint64, text string) error
	OffsetOf func(ctx context.Context, resource, key string) (uint64, error)
	// InTx runs fn in a transaction under f, which commits when fn returns nil; nil
	// where the guard runs no functions.
	InTx func(ctx context.Context, f guard.Fence, fn func(Within) error) error
	// LoseAnswer makes the answer of the next Append, Claim or Step get lost: after
	// it took effect when landed is true, else instead of it.
	LoseAnswer func(landed bool)
	// Resolves says that the guard may find out what became of an operation whose answer
	// was lost, or do it again so that it takes effect once. Such an operation may then be
	// done, and must have taken effect, or be unknown.
	Resolves bool
	// Busy reports errors that mean "nothing was done and nothing was judged,
	// repeat"; nil where there are none.
	Busy func(error) bool
	// SideBySide says that two operations of one holder can be open at once.
	// It needs Begin.
	SideBySide bool
	// RaisesFirst says that the mark rises in a step before the operation: lower tokens
	// are refused from then on, while operations that were let in before may still take
	// effect, all before the first one of the new token, and before its claim returns.
	// Operations of one token then need not take effect in the order of their checks.
	RaisesFirst bool
}

// Open is an operation before its commit; a *sql.Tx is one.
type Open interface {
	Commit() error
	Rollback() error
}

// Within is what a function can do in the transaction that it runs in.
type Within struct {
	// Append appends text to the list of the fence's resource.
	Append func(text string) error
	// Commit ends the transaction, which is not the function's to do.
	Commit func() error
}

// Run runs every rule of the contract as a subtest, each on a resource that
// open has made for it.
func Run(t *testing.T, open func(t *testing.T) Resource) {
	t.Helper()
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			// The bound is there to end a guard that hangs and is never waited for.
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			r := open(t)
			if rule.needs != nil && !rule.needs(r) {
				t.Skip("the resource does not have what this rule is about")
			}
			if err := rule.check(ctx, r); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// rule is one sentence of the contract. check is a function of values alone,
// so that the package's own tests can see it fail.
type rule struct {
	name  string
	needs func(Resource) bool
	check func(ctx context.Context, r Resource) error
}

var rules = []rule{
	{"an equal fence passes", nil, equalPasses},
	{"a lower fence is refused", nil, lowerRefused},
	{"a claim closes the window", nil, claimCloses},
	{"a refused operation leaves no trace", nil, refusedLeavesNothing},
	{"a lost answer is unknown", nil, lostIsUnknown}, // or resolved truthfully
	{"only 1 to 2^53-1 are tokens", nil, tokensInBounds},
	{"another cell is refused", nil, foreignRefused},
	{"tokens are compared as whole numbers", nil, tokensAreNumbers},
	{"resources are apart", nil, resourcesApart},
	{"a mark is seen", nil, markSeen},
	{"a mark is seen when its claim has returned", nil, markSeenAtOnce},
	{"a context that ends before the mark is read", nil, seenEnds},
	{"an open transaction of an old holder", func(r Resource) bool { return r.Begin != nil }, openTransaction},
	{"one holder side by side", func(r Resource) bool { return r.SideBySide }, sideBySide},
	{"an offset moves in turn", keepsOffsets, offsetsInTurn},
	{"an offset moves under the fence", keepsOffsets, offsetsUnderFence},
	{"offsets are 1 to 2^63-1 and go up", keepsOffsets, offsetsInBounds},
	{"offsets are apart", keepsOffsets, offsetsApart},
	{"a repeated step takes effect once", keepsOffsets, offsetsOnce},
	{"the same steps at once", keepsOffsets, offsetsAtOnce},
	{"a function runs under its fence", runsFunctions, functionUnderFence},
	{"a function that fails leaves no trace", runsFunctions, functionFails},
	{"a context that ends before the commit", runsFunctions, contextEnds},
	{"a function that commits by itself", runsFunctions, functionCommits},
	{"every step as Decide says", nil, stepByStep},
	{"concurrent histories", nil, histories},
}

func keepsOffsets(r Resource) bool  { return r.Step != nil }
func runsFunctions(r Resource) bool { return r.InTx != nil }

const (
	cell    = "test-00000000000000aa"
	another = "test-00000000000000bb"
)

func fence(resource string, t guard.Token) guard.Fence {
	return guard.Fence{Resource: resource, Token: t, Cell: cell}
}

// outcome is what a guard's answer claims to be.
type outcome string

const (
	done      outcome = "done"
	stale     outcome = "refused as stale"
	foreign   outcome = "refused as another cell's"
	missing   outcome = "refused as missing"
	malformed outcome = "refused as malformed"
	outOfTurn outcome = "refused as out of turn"
	unknown   outcome = "unknown"
	busy      outcome = "busy"
	strange   outcome = "none of the outcomes of a guard"
)

// outcome names the answer err. An error that is two things at once is
// strange.
func (r Resource) outcome(err error) outcome {
	if err == nil {
		return done
	}
	found := strange
	for _, o := range []struct {
		outcome outcome
		is      bool
	}{
		{stale, errors.Is(err, guard.ErrStale)},
		{foreign, errors.Is(err, guard.ErrForeign)},
		{missing, errors.Is(err, guard.ErrMissing)},
		{malformed, errors.Is(err, guard.ErrMalformed)},
		{outOfTurn, errors.Is(err, guard.ErrOutOfTurn)},
		{unknown, errors.Is(err, guard.ErrUnknown)},
		{busy, r.Busy != nil && r.Busy(err)},
	} {
		if o.is && found != strange {
			return strange
		}
		if o.is {
			found = o.outcome
		}
	}
	return found
}

// want returns an error unless err is the outcome o.
func (r Resource) want(o outcome, err error, format string, args ...any) error {
	if got := r.outcome(err); got != o {
		return fmt.Errorf("%s: got %s (%v), want %s", fmt.Sprintf(format, args...), got, err, o)
	}
	return nil
}

// wantStale is want(stale, …) and looks at what the error tells.
func (r Resource) wantStale(err error, f guard.Fence, seen guard.Token, doing string) error {
	if e := r.want(stale, err, "%s with token %d after %d", doing, f.Token, seen); e != nil {
		return e
	}
	e, ok := errors.AsType[*guard.StaleError](err)
	if !ok {
		return fmt.Errorf("%s: a stale token without *guard.StaleError: %v", doing, err)
	}
	if e.Resource != f.Resource || e.Shown != f.Token || e.Seen != seen || e.Verdict != guard.Stale {
		return fmt.Errorf("%s: the error says %+v; %v was shown after token %d", doing, *e, f, seen)
	}
	return nil
}

// wantList returns an error unless the list holds exactly texts.
func (r Resource) wantList(ctx context.Context, resource string, texts ...string) error {
	got, err := r.Read(ctx, resource)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", texts) {
		return fmt.Errorf("the list of %q is %q, want %q", resource, got, texts)
	}
	return nil
}

// wantMark returns an error unless the mark is t of the cell; t 0: no mark.
func (r Resource) wantMark(ctx context.Context, resource string, t guard.Token) error {
	got, err := r.Seen(ctx, resource)
	if err != nil {
		return fmt.Errorf("seen: %w", err)
	}
	want := guard.State{Seen: t}
	if t != 0 {
		want.Cell = cell
	}
	if got.Cell != want.Cell || got.Seen != want.Seen {
		return fmt.Errorf("the mark of %q is %d of cell %q, want %d of cell %q",
			resource, got.Seen, got.Cell, want.Seen, want.Cell)
	}
	return nil
}
