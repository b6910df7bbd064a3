package termsafe

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestControlCharactersAreEscaped(t *testing.T) {
	for _, text := range []string{
		"", "orders/7", "Zoë, 日本 🔒", "\u009b2J", "a\x7fb", "\u202egnp.exe", "\u200bx\ufeff", "\U000e0041", "\x1b]0;x\x07\r\n",
	} {
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got := JSON(raw)
		for _, r := range string(got) {
			if r < ' ' || obeyed(r) {
				t.Errorf("%q is written %q", text, got)
			}
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != text {
			t.Errorf("%q reads %q: %v", text, back, err)
		}
		if strings.HasPrefix(text, "Z") && string(got) != string(raw) {
			t.Errorf("%q is written %q", text, got)
		}
	}
}

func TestMessagesKeepTheirLines(t *testing.T) {
	for text, expected := range map[string]string{
		"a\n\tb": "a\n\tb", "Zoë": "Zoë", "\x1b[2J\r": `\u001b[2J\u000d`, "\u009b\u202e": `\u009b\u202e`,
	} {
		if got := Text(text); got != expected {
			t.Errorf("%q becomes %q, expected %q", text, got, expected)
		}
	}
}
