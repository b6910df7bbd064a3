package termsafe

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns JSON text, with or without a final newline, in which every character
// beyond ASCII that is not graphic is escaped, and so is DEL. Valid JSON escapes the
// other control characters itself. Text that needs no change is returned as it is.
func JSON(raw []byte) []byte {
	if bytes.IndexFunc(raw, obeyed) < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw)+64)
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		switch {
		case !obeyed(r):
			out = append(out, raw[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		raw = raw[n:]
	}
	return out
}

// Text returns a text in which every character that is not graphic is escaped, but
// for ends of lines and tabulators.
func Text(s string) string {
	held := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }
	if strings.IndexFunc(s, held) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if held(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func obeyed(r rune) bool { return r >= 0x7f && !unicode.IsGraphic(r) }
