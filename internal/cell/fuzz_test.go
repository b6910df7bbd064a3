package cell

import "testing"

// An id is 32 hex digits, and nothing else is anybody's.
func FuzzParseID(f *testing.F) {
	f.Add(drawID().String())
	f.Add("0123456789ABCDEF0123456789abcdef")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := parseID(s)
		switch {
		case !ok && id != (secretID{}):
			t.Fatalf("%q is nobody's id and gives %v", s, id)
		case ok && len(s) != 32:
			t.Fatalf("%q is taken for %v", s, id)
		}
	})
}
