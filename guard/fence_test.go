package guard

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestFenceValidate(t *testing.T) {
	good := Fence{Resource: "orders/7", Token: 42, Cell: cellA}
	with := func(change func(*Fence)) Fence {
		f := good
		change(&f)
		return f
	}
	for _, c := range []struct {
		name string
		f    Fence
		want error
	}{
		{"good", good, nil},
		{"a slot", with(func(f *Fence) { f.Resource = strings.Repeat("n", 512) + "\u001f10000" }), nil},
		{"longest cell", with(func(f *Fence) { f.Cell = strings.Repeat("c", 255) }), nil},
		{"nothing", Fence{}, ErrMissing},
		{"no token", with(func(f *Fence) { f.Token = 0 }), ErrMissing},
		{"token above", with(func(f *Fence) { f.Token = Max + 1 }), ErrMalformed},
		{"no resource", with(func(f *Fence) { f.Resource = "" }), ErrMalformed},
		{"long resource", with(func(f *Fence) { f.Resource = strings.Repeat("n", 519) }), ErrMalformed},
		{"resource not UTF-8", with(func(f *Fence) { f.Resource = "a\xff" }), ErrMalformed},
		{"resource with NUL", with(func(f *Fence) { f.Resource = "a\x00b" }), ErrMalformed},
		{"no cell", with(func(f *Fence) { f.Cell = "" }), ErrMalformed},
		{"long cell", with(func(f *Fence) { f.Cell = strings.Repeat("c", 256) }), ErrMalformed},
		{"cell not UTF-8", with(func(f *Fence) { f.Cell = "a\xff" }), ErrMalformed},
		{"cell with NUL", with(func(f *Fence) { f.Cell = "a\x00b" }), ErrMalformed},
	} {
		err := c.f.Validate()
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestFenceString(t *testing.T) {
	f := Fence{Resource: "orders/7", Token: 42, Cell: cellA}
	for _, format := range []string{"%v", "%+v", "%s"} {
		got := fmt.Sprintf(format, f)
		if got != `"orders/7" token 42 of cell "`+cellA+`"` {
			t.Errorf("%s: %s", format, got)
		}
	}
	if f.Mark() != mark(42) {
		t.Errorf("the mark is %+v", f.Mark())
	}
}
