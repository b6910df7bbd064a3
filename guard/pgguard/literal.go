package pgguard

import (
	"fmt"
	"strings"
)

// literal writes s, which is valid UTF-8 without NUL, as a constant of SQL that
// reads the same whatever the settings of the connection: letters, digits and a
// few signs as they are, everything else by its number. So one text holds BEGIN
// and what must follow it, which saves a round trip and passes through any
// pooler.
func literal(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 3)
	b.WriteString("E'")
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(" -_./:@", r):
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
