package httpguard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/pawlproject/pawl/guard"
)

// The headers of a guarded request and of its answer.
const (
	// TokenHeader holds the fence of a request: see [Format].
	TokenHeader = "Fencing-Token"
	// SeenHeader holds, in an answer of the guard, the highest token that the resource has
	// seen, in decimal digits.
	SeenHeader = "Fencing-Seen"
)

// NoCell stands for the cell of a fence that names none. The id of a real cell is its name,
// a hyphen and 16 hex digits, so no cell is called so.
const NoCell = "-"

// headerMax bounds the bytes of a fence as a header: the longest names with every byte
// percent-encoded.
const headerMax = 4096

const hexDigits = "0123456789ABCDEF"

// Format returns f as the value of the header Fencing-Token, or the error of
// [guard.Fence.Validate]:
//
//	"1876093218091008";r="orders/7";cell="default-9f86d081884c7d65"
//
// It is an item of a structured field (RFC 9651): a string, as an integer there has 15
// digits at most and a token has 16. What is not printable ASCII in a name, and the percent
// sign, is percent-encoded.
func Format(f guard.Fence) (string, error) {
	if err := f.Validate(); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `"%d";r=`, uint64(f.Token))
	quote(&b, f.Resource)
	if f.Cell != NoCell {
		b.WriteString(";cell=")
		quote(&b, f.Cell)
	}
	return b.String(), nil
}

// quote writes s as a string of a structured field.
func quote(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '%' || c < ' ' || c > '~':
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}

// Parse reads what [Format] wrote, and digits without quotes. What the value leaves out is
// empty: the resource without r, the cell without cell. Parse does not say whether the fence
// is valid, for that see [guard.Fence.Validate].
//
// It is stricter than RFC 9651: an unknown parameter, or one that is given twice, is
// [guard.ErrMalformed], since a misspelt name must not pass for one that is left out. So is
// everything else that it cannot read, and a token above [guard.Max]. A token of 0 or of no
// digits is [guard.ErrMissing].
func Parse(value string) (guard.Fence, error) {
	if len(value) > headerMax {
		return guard.Fence{}, malformed("%d bytes, limit %d", len(value), headerMax)
	}
	s := scanner{rest: strings.Trim(value, " ")}
	digits, err := s.token()
	if err != nil {
		return guard.Fence{}, err
	}
	// Read the parameters first: a token of 0 is Missing, and all else is Malformed.
	var f guard.Fence
	for s.rest != "" {
		name, text, err := s.parameter()
		if err != nil {
			return guard.Fence{}, err
		}
		into := map[string]*string{"r": &f.Resource, "cell": &f.Cell}[name]
		switch {
		case into == nil:
			return guard.Fence{}, malformed("an unknown parameter %.40q; there are r and cell", name)
		case *into != "":
			return guard.Fence{}, malformed("%s is given twice", name)
		case text == "":
			return guard.Fence{}, malformed("%s is empty", name)
		}
		*into = text
	}
	if f.Token, err = guard.ParseToken(digits); err != nil {
		return guard.Fence{}, err
	}
	return f, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: header %s: %s", guard.ErrMalformed, TokenHeader, fmt.Sprintf(format, args...))
}

// scanner reads a value from its beginning.
type scanner struct{ rest string }

func (s *scanner) token() (string, error) {
	if strings.HasPrefix(s.rest, `"`) {
		return s.text()
	}
	n := 0
	for n < len(s.rest) && '0' <= s.rest[n] && s.rest[n] <= '9' {
		n++
	}
	digits := s.rest[:n]
	if s.rest = s.rest[n:]; s.rest != "" && s.rest[0] != ';' {
		return "", malformed("no token stands where it begins")
	}
	return digits, nil
}

// parameter reads ;name="text", with spaces after the semicolon.
func (s *scanner) parameter() (name, text string, err error) {
	rest, ok := strings.CutPrefix(s.rest, ";")
	if !ok {
		return "", "", malformed("expected a semicolon before a parameter")
	}
	name, rest, ok = strings.Cut(strings.TrimLeft(rest, " "), "=")
	if !ok || !strings.HasPrefix(rest, `"`) {
		return "", "", malformed(`expected name="text" after a semicolon`)
	}
	s.rest = rest
	text, err = s.text()
	return name, text, err
}

// text reads a string in quotes and decodes it.
func (s *scanner) text() (string, error) {
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			s.rest = s.rest[i+1:]
			return b.String(), nil
		case c == '\\':
			i++
			if i == len(s.rest) || s.rest[i] != '"' && s.rest[i] != '\\' {
				return "", malformed("a backslash before neither a quote nor a backslash")
			}
			b.WriteByte(s.rest[i])
		case c == '%':
			if i+2 >= len(s.rest) {
				return "", malformed("a percent sign without two hex digits")
			}
			high, low := hexOf(s.rest[i+1]), hexOf(s.rest[i+2])
			if high < 0 || low < 0 {
				return "", malformed("a percent sign without two hex digits")
			}
			b.WriteByte(byte(high<<4 | low))
			i += 2
		case c < ' ' || c > '~':
			return "", malformed("byte 0x%02x; expected printable ASCII, and all else percent-encoded", c)
		default:
			b.WriteByte(c)
		}
	}
	return "", malformed("a string without its closing quote")
}

func hexOf(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// fenceOf reads the fence of a request and fills in what the options say. ErrMissing: it
// shows none.
func (o *Options) fenceOf(h http.Header) (guard.Fence, error) {
	values := h.Values(TokenHeader)
	switch len(values) {
	case 0:
		return guard.Fence{}, guard.ErrMissing
	case 1:
	default:
		return guard.Fence{}, malformed("it is given %d times", len(values))
	}
	f, err := Parse(values[0])
	if err != nil {
		return guard.Fence{}, err
	}
	if f.Resource == "" {
		f.Resource = o.Resource
	}
	if f.Resource == "" {
		return guard.Fence{}, malformed(`no resource; expected ;r="NAME" after the token`)
	}
	if f.Cell == "" {
		f.Cell = o.Cell
	}
	if f.Cell == "" {
		f.Cell = NoCell
	}
	return f, f.Validate()
}
