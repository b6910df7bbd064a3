package guard

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestParseToken(t *testing.T) {
	for in, want := range map[string]Token{
		"1": 1, "9007199254740991": Max, "0000000000000042": 42, "9007199254740990": Max - 1, "2147483648": 1 << 31,
	} {
		got, err := ParseToken(in)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
	for in, want := range map[string]error{
		"": ErrMissing, "0": ErrMissing, "0000000000000000": ErrMissing,
		"9007199254740992": ErrMalformed, "9999999999999999": ErrMalformed, "18446744073709551617": ErrMalformed,
		"00000000000000001": ErrMalformed, "-1": ErrMalformed, "+1": ErrMalformed, " 1": ErrMalformed, "1 ": ErrMalformed,
		"1e3": ErrMalformed, "0x1": ErrMalformed, "1_0": ErrMalformed, "1.0": ErrMalformed, "١": ErrMalformed, "1\x00": ErrMalformed,
	} {
		got, err := ParseToken(in)
		if !errors.Is(err, want) || got != 0 {
			t.Errorf("%q: %d, %v, want %v", in, got, err, want)
		}
	}
}

func TestTokenText(t *testing.T) {
	if got := Token(42).Fixed(); got != "0000000000000042" {
		t.Error(got)
	}
	if got := Max.Fixed(); got != Max.String() || len(got) != fixedLen {
		t.Error(got)
	}
	tokens := []Token{1, 9, 10, 99, 100, 1 << 31, 1<<32 + 1, Max - 1, Max}
	for i, a := range tokens {
		for _, b := range tokens[i+1:] {
			if a.Fixed() >= b.Fixed() {
				t.Errorf("%s sorts behind %s", a.Fixed(), b.Fixed())
			}
		}
	}
	if Token(0).Valid() || (Max + 1).Valid() || !Token(1).Valid() || !Max.Valid() {
		t.Error("Valid is wrong at a bound")
	}
}

// TestTokenJSON sends tokens through a parser that knows only doubles: as
// strings they come back as they were.
func TestTokenJSON(t *testing.T) {
	for _, token := range []Token{1, 1 << 31, 1<<53 - 2, Max} {
		b, err := json.Marshal(Fence{Resource: "orders/7", Token: token, Cell: cellA})
		if err != nil {
			t.Fatal(err)
		}
		if want := `"fencing_token":"` + token.String() + `"`; !strings.Contains(string(b), want) {
			t.Errorf("%s does not hold %s", b, want)
		}
		var loose map[string]any
		if err := json.Unmarshal(b, &loose); err != nil {
			t.Fatal(err)
		}
		b, err = json.Marshal(loose)
		if err != nil {
			t.Fatal(err)
		}
		var back Fence
		if err := json.Unmarshal(b, &back); err != nil || back.Token != token {
			t.Errorf("%d came back as %d, %v", token, back.Token, err)
		}
	}
	var token Token
	for _, in := range []string{
		`0`, `42`, `"0"`, `""`, `"-1"`, `"9007199254740992"`, `"18446744073709551617"`, `"10000000000000000"`,
		`"00000000000000042"`, `"0000000000000042x"`, `" 42"`, `true`, `{}`, `[]`, `4.2e1`,
	} {
		if err := json.Unmarshal([]byte(in), &token); err == nil || token != 0 {
			t.Errorf("%s was taken for %d", in, token)
		}
	}
	if err := json.Unmarshal([]byte(`null`), &token); err != nil || token != 0 {
		t.Errorf("null: %d, %v", token, err)
	}
	for _, bad := range []Token{0, Max + 1, math.MaxUint64} {
		if b, err := json.Marshal(bad); err == nil {
			t.Errorf("%d left as %s", uint64(bad), b)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	for _, s := range []string{"", "0", "1", "0000000000000042", "9007199254740991", "9007199254740992", "-1", "1e9", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token, err := ParseToken(s)
		if err != nil {
			if token != 0 || !errors.Is(err, ErrMissing) && !errors.Is(err, ErrMalformed) {
				t.Fatalf("%q: %d, %v", s, token, err)
			}
			if len(err.Error()) > 200 {
				t.Fatalf("the error for %d bytes has %d", len(s), len(err.Error()))
			}
			return
		}
		if !token.Valid() || strings.TrimLeft(s, "0") != token.String() {
			t.Fatalf("%q was read as %d", s, token)
		}
		for _, text := range []string{token.String(), token.Fixed()} {
			if back, err := ParseToken(text); err != nil || back != token {
				t.Fatalf("%q came back as %d, %v", text, back, err)
			}
		}
	})
}

func FuzzFenceJSON(f *testing.F) {
	for _, s := range []string{
		`{"resource":"orders/7","fencing_token":"42","cell":"default-9f86d081884c7d65"}`,
		`{"resource":"slots\u001f3","fencing_token":"9007199254740991","cell":"c"}`,
		`{"fencing_token":42}`, `{"fencing_token":null}`, `{"fencing_token":""}`, `[]`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var fence Fence
		if json.Unmarshal(b, &fence) != nil {
			return
		}
		if fence.Token != 0 && !fence.Token.Valid() {
			t.Fatalf("%s was read as token %d", b, uint64(fence.Token))
		}
		if err := fence.Validate(); err != nil {
			if !errors.Is(err, ErrMissing) && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		out, err := json.Marshal(fence)
		if err != nil {
			t.Fatal(err)
		}
		var back Fence
		if err := json.Unmarshal(out, &back); err != nil || back != fence {
			t.Fatalf("%v came back as %v, %v", fence, back, err)
		}
	})
}
