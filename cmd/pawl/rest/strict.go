package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeStrict is json.Unmarshal that refuses what the standard decoder mends
// in silence: repeated keys, of which the last would win, null, which it takes
// for an absent key, and text that is not Unicode, of which different pieces
// would become equal.
func decodeStrict(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("the body is not valid UTF-8")
	}
	if err := checkKeys(data); err != nil {
		if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && start[0] != '{' && errors.As(err, new(*json.SyntaxError)) {
			return errors.New("the body is not JSON; an object was expected, such as {\"name\":\"orders/7\"}")
		}
		return err
	}
	if loneSurrogate(data) {
		return errors.New(`the body holds half a surrogate pair (\ud800 to \udfff), which is no character`)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return ofField(data, v, plainly(err))
	}
	return nil
}

// plainly words what the standard decoder says in names of Go's types. huma has
// looked at the kinds of values before, so it is numbers that do not fit.
func plainly(err error) error {
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err
	case strings.HasPrefix(e.Value, "number"):
		return errors.New("the number is out of range")
	}
	return errors.New("another kind of value was expected; /openapi.json describes it")
}

// checkKeys refuses an object with a key twice, and anything after the value.
func checkKeys(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := checkValue(dec); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the body is not JSON: it ends too early")
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body goes on after its JSON value")
	}
	return nil
}

// The decoder bounds the depth, and the front the length, of what this reads.
func checkValue(dec *json.Decoder) error {
	t, err := dec.Token()
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	switch t {
	case json.Delim('{'):
		seen := map[string]bool{}
		for dec.More() {
			k, err := dec.Token()
			if err != nil {
				return fmt.Errorf("the body is not JSON: %w", err)
			}
			key, _ := k.(string)
			if seen[key] {
				return fmt.Errorf("the key %.60q is there twice", key)
			}
			seen[key] = true
			if err := checkValue(dec); err != nil {
				return err
			}
		}
	case json.Delim('['):
		for dec.More() {
			if err := checkValue(dec); err != nil {
				return err
			}
		}
	case nil:
		return errors.New("there is a null; leave the key out instead")
	default:
		return nil
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return nil
}

// loneSurrogate looks for an escaped half of a surrogate pair in valid JSON.
func loneSurrogate(data []byte) bool {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		r, ok := escaped(data[i:])
		if !ok {
			i++
			continue
		}
		i += 5
		if !utf16.IsSurrogate(r) {
			continue
		}
		low, ok := escaped(data[min(i+1, len(data)):])
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escaped reads \uXXXX.
func escaped(data []byte) (rune, bool) {
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
