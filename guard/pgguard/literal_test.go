package pgguard

import (
	"strconv"
	"strings"
	"testing"
)

// unescape reads what literal writes, as PostgreSQL's lexer does.
func unescape(t *testing.T, text string) string {
	t.Helper()
	text, ok := strings.CutPrefix(text, "E'")
	text, ended := strings.CutSuffix(text, "'")
	if !ok || !ended || strings.Contains(text, "'") {
		t.Fatalf("%q is no constant", text)
	}
	var b strings.Builder
	for text != "" {
		digits := map[string]int{`\u`: 4, `\U`: 8}[text[:min(2, len(text))]]
		if digits == 0 {
			if text[0] == '\\' || text[0] > 126 {
				t.Fatalf("%q depends on the connection's settings", text)
			}
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		r, err := strconv.ParseInt(text[2:2+digits], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteRune(rune(r))
		text = text[2+digits:]
	}
	return b.String()
}

func FuzzLiteral(f *testing.F) {
	for _, s := range []string{"", "orders/7", "'; drop table x; --", `\`, `\'`, "\n", "a\u001f1", "é\U0001F512", "表"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		if got := unescape(t, literal(s)); got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}
