package guard

import (
	"fmt"
	"strconv"
)

// Token orders the leases of one cell: of two leases the later one has the
// higher token, for all names and for ever. Zero means "none" and is never
// valid; valid tokens are 1 to [Max].
//
// As text and in JSON a token is a string of decimal digits, because a number
// of this size does not survive every JSON parser.
type Token uint64

// Max is the highest valid token, 2^53-1: the highest number that Lua,
// JavaScript and other users of double precision hold exactly, along with all
// below it.
const Max Token = 1<<53 - 1

// fixedLen is the number of digits of Max.
const fixedLen = 16

// ParseToken reads what [Token.String] or [Token.Fixed] wrote: 1 to 16 decimal
// digits and nothing else. It returns [ErrMissing] for an empty string and for
// zero, [ErrMalformed] for anything else that is not a valid token.
func ParseToken(s string) (Token, error) {
	if s == "" {
		return 0, ErrMissing
	}
	if len(s) > fixedLen {
		return 0, fmt.Errorf("%w: a token of %d characters", ErrMalformed, len(s))
	}
	var t Token
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, fmt.Errorf("%w: token %q is not a decimal number", ErrMalformed, s)
		}
		t = t*10 + Token(s[i]-'0')
	}
	if err := t.check(); err != nil {
		return 0, err
	}
	return t, nil
}

// check returns nil for a valid token, ErrMissing for zero and ErrMalformed for
// one above Max.
func (t Token) check() error {
	switch {
	case t == 0:
		return ErrMissing
	case t > Max:
		return fmt.Errorf("%w: token %d is above 2^53-1", ErrMalformed, uint64(t))
	}
	return nil
}

// Valid reports whether t is in 1 … Max.
func (t Token) Valid() bool { return t.check() == nil }

// String returns the decimal digits.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// Fixed returns 16 digits with leading zeros, which sort as text the way the
// tokens do as numbers. A token that is not valid may need more.
func (t Token) Fixed() string { return fmt.Sprintf("%0*d", fixedLen, uint64(t)) }

// MarshalText writes a token as a decimal string in JSON. For an invalid token it
// returns the error of [ParseToken], so such a token does not leave the process. Fields
// that may be empty need the JSON option omitzero.
func (t Token) MarshalText() ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return strconv.AppendUint(nil, uint64(t), 10), nil
}

// UnmarshalText is [ParseToken]. JSON numbers are refused; JSON null leaves the
// token as it was, as for any other type.
func (t *Token) UnmarshalText(b []byte) error {
	// The copy made by string(b) is kept small whatever was sent.
	p, err := ParseToken(string(b[:min(len(b), fixedLen+1)]))
	if err != nil {
		return err
	}
	*t = p
	return nil
}
