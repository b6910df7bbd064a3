package guard

import (
	"errors"
	"fmt"
)

// The errors of every guard, for errors.Is. All but ErrUnknown say that the
// operation was refused: nothing took effect and the mark did not move.
var (
	// ErrStale: the resource has seen a higher token, the caller's lease is over.
	// The error is a *StaleError. Repeating will never help.
	ErrStale = errors.New("guard: stale fencing token")
	// ErrOutOfTurn: the token passes, the operation is repeated or not the next
	// one: Duplicate, Gap, Conflict or Forgotten. The error is a *StaleError.
	ErrOutOfTurn = errors.New("guard: operation repeated or out of turn")
	// ErrForeign: the resource is held to the tokens of another cell, with which
	// this one cannot be compared. The error is a *ForeignError.
	ErrForeign = errors.New("guard: fencing token of another cell")
	// ErrMissing: no token (or, under Once, no key) was shown.
	ErrMissing = errors.New("guard: no fencing token")
	// ErrMalformed: what was shown cannot be a fence.
	ErrMalformed = errors.New("guard: malformed fence")

	// ErrUnknown says that the resource did not answer whether the operation took
	// effect. It is never a refusal: clean nothing up, and repeat only an operation
	// that may be applied twice, or that carries an offset or a key.
	ErrUnknown = errors.New("guard: outcome unknown")
)

// StaleError tells what was shown and what the resource had seen when it
// refused. It matches [ErrStale] when Verdict is Stale and [ErrOutOfTurn] when
// it is Duplicate, Gap, Conflict or Forgotten.
type StaleError struct {
	Resource string
	// Shown is the token of the refused operation, Seen the resource's mark.
	Shown, Seen Token
	Verdict     Verdict
}

func (e *StaleError) Error() string {
	if e.Verdict == Stale {
		return fmt.Sprintf("guard: stale fencing token %d for %q, which has seen %d",
			uint64(e.Shown), e.Resource, uint64(e.Seen))
	}
	return fmt.Sprintf("guard: operation on %q with token %d refused: %v",
		e.Resource, uint64(e.Shown), e.Verdict)
}

// Is makes errors.Is match ErrStale or ErrOutOfTurn.
func (e *StaleError) Is(target error) bool {
	if e.Verdict == Stale {
		return target == ErrStale
	}
	return target == ErrOutOfTurn
}

// ForeignError tells which resource refused a fence, and of which cell it is. It matches
// [ErrForeign].
type ForeignError struct {
	Resource string
	// Shown is the cell of the refused operation, Seen the one that the resource is held
	// to.
	Shown, Seen string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%v: %q is held to cell %q, shown was cell %q", ErrForeign, e.Resource, e.Seen, e.Shown)
}

// Is makes errors.Is match ErrForeign.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// Err turns a verdict on m into the error that every guard returns for it: nil
// for Pass, Advance and Replay. The state s is the one that was decided on.
func (v Verdict) Err(resource string, s State, m Mark) error {
	switch v {
	case Pass, Advance, Replay:
		return nil
	case Foreign:
		return &ForeignError{Resource: resource, Shown: m.Cell, Seen: s.Cell}
	case Missing:
		return fmt.Errorf("%w for %q", ErrMissing, resource)
	case Stale, Duplicate, Gap, Conflict, Forgotten:
		return &StaleError{Resource: resource, Shown: m.Token, Seen: max(s.Seen, s.Floor), Verdict: v}
	default:
		return fmt.Errorf("%w for %q: token %d, cell %q", ErrMalformed, resource, uint64(m.Token), m.Cell)
	}
}
