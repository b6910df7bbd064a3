package rest

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// object is what a body is decoded into. field reads the value of one key, and returns
// errUnknownKey for an unknown key. check is called at the end, and reports what is
// missing.
type object interface {
	field(key string, r *reader) error
	check() error
}

// errUnknownKey is never shown.
var errUnknownKey = errors.New("unknown key")

// decodeStrict reads a body once, from its beginning to its end, and stops at the
// first thing that is wrong. It refuses what encoding/json mends in silence:
// unknown and repeated keys, null, which is taken for an absent key there, and text
// that is not Unicode, of which different pieces would become equal. What it keeps
// grows with what the object takes, not with what is sent.
func decodeStrict(data []byte, into object) error {
	r := &reader{data: data}
	switch c := r.peek(); {
	case c == '{':
	case c == 0 && r.at >= len(data):
		return errors.New(`the body is missing; an object was expected, such as {"name":"orders/7"}`)
	case r.starts():
		return errors.New("body: an object in braces was expected")
	default:
		return errors.New(`the body is not JSON; an object was expected, such as {"name":"orders/7"}`)
	}
	if err := r.object(into); err != nil {
		return err
	}
	if r.peek(); r.at < len(r.data) {
		return errors.New("the body goes on after its JSON value")
	}
	return into.check()
}

// reader reads JSON.
type reader struct {
	data []byte
	at   int
	key  string // whose value is read
}

var errShort = errors.New("the body is not JSON: it ends too early")

// syntax is the error of what cannot stand where the reader is.
func (r *reader) syntax(expected string) error {
	if r.at >= len(r.data) {
		return errShort
	}
	return fmt.Errorf("the body is not JSON: %s was expected at byte %d", expected, r.at)
}

// mistyped is the error of a value that stands where another type belongs.
func (r *reader) mistyped(what string) error {
	switch {
	case bytes.HasPrefix(r.data[r.at:], []byte("null")):
		return errors.New("there is a null; leave the key out instead")
	case !r.starts():
		return r.syntax("a value")
	case textFields[r.key] != "" && what == aText:
		what = textFields[r.key]
	}
	return r.wrong(errors.New(what + " was expected"))
}

// wrong says which value an error speaks of.
func (r *reader) wrong(err error) error { return fmt.Errorf("body.%s: %w", r.key, err) }

// The types, in words.
const (
	aText    = "a text in quotes"
	aTruth   = "true or false, without quotes"
	aWhole   = "a whole number, without quotes"
	someList = "a list in brackets"
)

// peek returns the next byte that is no space; 0: there is none.
func (r *reader) peek() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// starts reports whether what comes next looks like a value.
func (r *reader) starts() bool {
	if r.at >= len(r.data) {
		return false
	}
	rest := r.data[r.at:]
	switch c := rest[0]; {
	case c == '{', c == '[', c == '"', c == '-', '0' <= c && c <= '9':
		return true
	}
	return slices.ContainsFunc([]string{"true", "false", "null"}, func(s string) bool { return bytes.HasPrefix(rest, []byte(s)) })
}

// takes reads a byte behind spaces, if it is the next one.
func (r *reader) takes(c byte) bool {
	if r.peek() != c || r.at >= len(r.data) {
		return false
	}
	r.at++
	return true
}

func (r *reader) object(into object) error {
	if !r.takes('{') {
		return r.syntax("an object")
	}
	if r.takes('}') {
		return nil
	}
	var seen []string // the object bounds them: an unknown one ends it
	for {
		r.key = ""
		if r.peek() != '"' {
			return r.syntax("a key in quotes")
		}
		raw, err := r.raw()
		if err != nil {
			return err
		}
		key := string(raw)
		if slices.Contains(seen, key) {
			return fmt.Errorf("the key %.60q is there twice", key)
		}
		seen = append(seen, key)
		if !r.takes(':') {
			return r.syntax("a colon")
		}
		r.peek()
		r.key = key
		if err := into.field(key, r); err != nil {
			if errors.Is(err, errUnknownKey) {
				return fmt.Errorf("%.60q is not known; /openapi.json describes what is", key)
			}
			return err
		}
		switch {
		case r.takes('}'):
			return nil
		case !r.takes(','):
			return r.syntax("a comma or a brace")
		}
	}
}

// text reads a text.
func (r *reader) text() (string, error) {
	if r.peek() != '"' {
		return "", r.mistyped(aText)
	}
	b, err := r.raw()
	return string(b), err
}

// into reads a text that stands for something.
func (r *reader) into(v encoding.TextUnmarshaler) error {
	if r.peek() != '"' {
		return r.mistyped(aText)
	}
	b, err := r.raw()
	if err != nil {
		return err
	}
	if err := v.UnmarshalText(b); err != nil {
		return r.wrong(err)
	}
	return nil
}

// truth reads true or false.
func (r *reader) truth() (bool, error) {
	r.peek()
	for word, v := range map[string]bool{"true": true, "false": false} {
		if bytes.HasPrefix(r.data[r.at:], []byte(word)) {
			r.at += len(word)
			return v, nil
		}
	}
	return false, r.mistyped(aTruth)
}

// whole reads a whole number.
func (r *reader) whole() (int64, error) {
	r.peek()
	end := r.at
	for end < len(r.data) && strings.IndexByte("+-.0123456789eE", r.data[end]) >= 0 {
		end++
	}
	digits := string(r.data[r.at:end])
	n, err := strconv.ParseInt(digits, 10, 64)
	if _, unbounded := strconv.ParseFloat(digits, 64); errors.Is(err, strconv.ErrRange) || errors.Is(unbounded, strconv.ErrRange) {
		return 0, r.wrong(errors.New("the number is out of range"))
	}
	if bare := strings.TrimPrefix(digits, "-"); err != nil || bare != "0" && bare[0] == '0' || digits[0] == '+' {
		return 0, r.mistyped(aWhole)
	}
	r.at = end
	return n, nil
}

// texts reads a list of at most so many texts.
func (r *reader) texts(most int) ([]string, error) {
	if r.peek() != '[' {
		return nil, r.mistyped(someList)
	}
	r.at++
	all := []string{}
	if r.takes(']') {
		return all, nil
	}
	for {
		if len(all) == most {
			return nil, r.wrong(fmt.Errorf("at most %d entries were expected", most))
		}
		s, err := r.text()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		switch {
		case r.takes(']'):
			return all, nil
		case !r.takes(','):
			return nil, r.syntax("a comma or a bracket")
		}
	}
}

// raw reads a text that is known to begin here. What it returns may lie in the
// body.
func (r *reader) raw() ([]byte, error) {
	start := r.at + 1
	n := bytes.IndexByte(r.data[start:], '"')
	if n < 0 {
		return nil, errShort
	}
	b := r.data[start : start+n]
	plain := bytes.IndexByte(b, '\\')
	if plain >= 0 {
		return r.escaped(start, plain)
	}
	r.at = start + n + 1
	return b, r.checkUnicode(b, start)
}

// checkUnicode refuses text that JSON, or Unicode, does not know.
func (r *reader) checkUnicode(b []byte, at int) error {
	for i, c := range b {
		if c < ' ' {
			r.at = at + i
			return r.syntax("no control character in a text")
		}
	}
	if !utf8.Valid(b) {
		return errors.New("the body is not valid UTF-8")
	}
	return nil
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped reads a text that begins at start, and plainly for so many bytes.
func (r *reader) escaped(start, plain int) ([]byte, error) {
	b := make([]byte, 0, 2*plain+32)
	for r.at = start; ; {
		rest := r.data[r.at:]
		n := bytes.IndexAny(rest, `"\`)
		if n < 0 || n+1 >= len(rest) {
			r.at = len(r.data)
			return nil, errShort
		}
		if err := r.checkUnicode(rest[:n], r.at); err != nil {
			return nil, err
		}
		b = append(b, rest[:n]...)
		if r.at += n + 1; rest[n] == '"' {
			return b, nil
		}
		if c, known := escapes[rest[n+1]]; known {
			b = append(b, c)
			r.at++
			continue
		}
		c, ok := hexed(rest[n:])
		if !ok {
			return nil, r.syntax("an escape that JSON knows")
		}
		r.at += 5
		if utf16.IsSurrogate(c) {
			low, ok := hexed(r.data[r.at:])
			if c = utf16.DecodeRune(c, low); !ok || c == utf8.RuneError {
				return nil, errors.New(`the body holds half a surrogate pair (\ud800 to \udfff), which is no character`)
			}
			r.at += 6
		}
		b = utf8.AppendRune(b, c)
	}
}

// hexed reads \uXXXX.
func hexed(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range data[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// some reads a value whose absence says something.
func some[T any](to **T, v T, err error) error {
	*to = &v
	return err
}

// given reads a text that stands for something, and whose absence says something.
func given[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](to **T, r *reader) error {
	*to = new(T)
	return r.into(P(*to))
}
