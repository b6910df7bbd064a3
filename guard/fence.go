package guard

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of a fence's texts, in bytes.
const (
	// A name of up to 512 bytes, or such a name, U+001F and the number of a slot
	// (at most 5 digits).
	resourceMax = 512 + 1 + 5
	cellMax     = 255
)

// Fence is what an operation shows to a guard: in the name of which lease it
// acts. A lease hands it out ready for use.
type Fence struct {
	// Resource is the guard's line: the name of the lease; for a slot its name,
	// U+001F and its number. 1 to 518 bytes of valid UTF-8 without NUL, compared
	// byte for byte.
	Resource string `json:"resource"`
	// Token is 1 to Max. It is called fencing_token in JSON so that nobody takes
	// it for a credential.
	Token Token `json:"fencing_token"`
	// Cell is the id of the cell that granted the lease, 1 to 255 bytes of valid
	// UTF-8 without NUL. Tokens are ordered within a cell only.
	Cell string `json:"cell"`
}

// Validate returns nil for a fence that a guard may look at, [ErrMissing] when
// it has no token, and [ErrMalformed] when anything else is out of bounds.
func (f Fence) Validate() error {
	if err := f.Token.check(); err != nil {
		return err
	}
	if err := checkText("resource", f.Resource, resourceMax); err != nil {
		return err
	}
	return checkText("cell id", f.Cell, cellMax)
}

func checkText(what, s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: no %s", ErrMalformed, what)
	case len(s) > limit:
		return fmt.Errorf("%w: a %s of %d bytes, limit %d", ErrMalformed, what, len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: the %s is not valid UTF-8", ErrMalformed, what)
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("%w: the %s holds a NUL", ErrMalformed, what)
	}
	return nil
}

// String is for logs: it shows resource, token and cell.
func (f Fence) String() string {
	return fmt.Sprintf("%q token %d of cell %q", f.Resource, uint64(f.Token), f.Cell)
}

// Mark is the part of the fence that [Decide] compares under every policy.
func (f Fence) Mark() Mark { return Mark{Token: f.Token, Cell: f.Cell} }

// Claimer is a guard that can be claimed: it raises its mark to the fence's
// token, so that from then on nothing lower takes effect, before the holder
// reads anything it will act upon.
//
// Claim returns nil when the resource now refuses everything below f;
// [ErrStale], [ErrForeign], [ErrMissing] or [ErrMalformed] when f itself is
// refused; [ErrUnknown] when the answer was lost. It may be repeated freely, and
// must be after ErrUnknown and after the resource failed over to a copy. Any
// other error means that nothing was claimed.
type Claimer interface {
	Claim(ctx context.Context, f Fence) error
}

// Seer is a guard whose mark can be read without showing a fence: it tells a holder that
// nobody answers whether a successor has claimed.
//
// Seen returns the cell and the highest token that the resource has accepted or been
// claimed with, as far as it is committed. The zero [State] with a nil error is a
// resource that has seen nothing. A mark that is higher than the holder's token, or of
// another cell, says that the holder was overtaken. A mark that is not says nothing: a
// claim may follow at once.
//
// Seen returns an error when it could not read the mark. The error says nothing about
// the mark. Seen ends when ctx does; the error is then that of ctx.
type Seer interface {
	Seen(ctx context.Context, resource string) (State, error)
}
