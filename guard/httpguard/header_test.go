package httpguard

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/guard"
)

func TestParse(t *testing.T) {
	long := strings.Repeat("\xff", 3)
	for _, c := range []struct {
		value string
		want  guard.Fence
		err   error
	}{
		{`"43";r="orders/7";cell="default-00000000000000aa"`, guard.Fence{Resource: "orders/7", Token: 43, Cell: "default-00000000000000aa"}, nil},
		{`43;r="orders/7"`, guard.Fence{Resource: "orders/7", Token: 43}, nil},
		{` "0000000000000043"; cell="c";  r="a b" `, guard.Fence{Resource: "a b", Token: 43, Cell: "c"}, nil},
		{`9007199254740991`, guard.Fence{Token: guard.Max}, nil},
		{`1;r="%C3%a9%25\"\\"`, guard.Fence{Resource: `é%"\`, Token: 1}, nil},
		{``, guard.Fence{}, guard.ErrMissing},
		{`""`, guard.Fence{}, guard.ErrMissing},
		{`0;r="x"`, guard.Fence{}, guard.ErrMissing},
		{`9007199254740992`, guard.Fence{}, guard.ErrMalformed},
		{`00000000000000043`, guard.Fence{}, guard.ErrMalformed},
		{`-1`, guard.Fence{}, guard.ErrMalformed},
		{`1.0`, guard.Fence{}, guard.ErrMalformed},
		{`"4 3"`, guard.Fence{}, guard.ErrMalformed},
		{`43, 44`, guard.Fence{}, guard.ErrMalformed},
		{`43;r=orders`, guard.Fence{}, guard.ErrMalformed},
		{`43;r`, guard.Fence{}, guard.ErrMalformed},
		{`43;r="x`, guard.Fence{}, guard.ErrMalformed},
		{`43;r="x"y`, guard.Fence{}, guard.ErrMalformed},
		{`43;r="x";r="y"`, guard.Fence{}, guard.ErrMalformed},
		{`43;r=""`, guard.Fence{}, guard.ErrMalformed},
		{`43;resource="x"`, guard.Fence{}, guard.ErrMalformed},
		{`43;R="x"`, guard.Fence{}, guard.ErrMalformed},
		{`43;r="%"`, guard.Fence{}, guard.ErrMalformed},
		{`43;r="%4"`, guard.Fence{}, guard.ErrMalformed},
		{`43;r="%g0"`, guard.Fence{}, guard.ErrMalformed},
		{`43;r="\n"`, guard.Fence{}, guard.ErrMalformed},
		{`43;r="` + long + `"`, guard.Fence{}, guard.ErrMalformed},
		{`43;r="` + strings.Repeat("x", headerMax) + `"`, guard.Fence{}, guard.ErrMalformed},
	} {
		got, err := Parse(c.value)
		if got != c.want || !errors.Is(err, c.err) || err == nil != (c.err == nil) {
			t.Errorf("%.60q is %+v (%v), expected %+v (%v)", c.value, got, err, c.want, c.err)
		}
	}
}

// The longest fence fits, whatever its bytes.
func TestLongestFenceFits(t *testing.T) {
	f := guard.Fence{Resource: strings.Repeat("\x7f", 518), Token: guard.Max, Cell: strings.Repeat("\x01", 255)}
	value, err := Format(f)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Parse(value); got != f || err != nil {
		t.Errorf("%d bytes are read as %+v (%v)", len(value), got, err)
	}
}

func TestFenceOfRequest(t *testing.T) {
	o := Options{Cell: "default", Resource: "all"}
	for _, c := range []struct {
		o      Options
		values []string
		want   guard.Fence
		err    error
	}{
		{o, []string{`7`}, guard.Fence{Resource: "all", Token: 7, Cell: "default"}, nil},
		{o, []string{`7;r="x";cell="c"`}, guard.Fence{Resource: "x", Token: 7, Cell: "c"}, nil},
		{Options{}, []string{`7;r="x"`}, guard.Fence{Resource: "x", Token: 7, Cell: NoCell}, nil},
		{Options{}, []string{`7`}, guard.Fence{}, guard.ErrMalformed},
		{o, []string{`7`, `7`}, guard.Fence{}, guard.ErrMalformed},
		{o, nil, guard.Fence{}, guard.ErrMissing},
		{o, []string{`7;r="%00"`}, guard.Fence{}, guard.ErrMalformed},
		{o, []string{`7;r="%ff"`}, guard.Fence{}, guard.ErrMalformed},
	} {
		got, err := c.o.fenceOf(http.Header{TokenHeader: c.values})
		if !errors.Is(err, c.err) || err == nil != (c.err == nil) || err == nil && got != c.want {
			t.Errorf("%q is %+v (%v), expected %+v (%v)", c.values, got, err, c.want, c.err)
		}
	}
}

// Whatever is read and valid is written so that it is read as the same, in ASCII.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`"43";r="orders/7";cell="c"`, `43;r="%C3%A9"`, `"";r="\""`, `1;;`, `1;r="%`, `"1`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, err := Parse(value)
		if err != nil {
			if !errors.Is(err, guard.ErrMalformed) && !errors.Is(err, guard.ErrMissing) {
				t.Fatalf("%q: %v", value, err)
			}
			return
		}
		if got.Cell == "" {
			got.Cell = NoCell
		}
		text, err := Format(got)
		if err != nil {
			return // no resource, or a text that is out of bounds
		}
		again, err := Parse(text)
		if again.Cell == "" {
			again.Cell = NoCell
		}
		if err != nil || again != got || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q is %+v, written as %q, read as %+v (%v)", value, got, text, again, err)
		}
	})
}
