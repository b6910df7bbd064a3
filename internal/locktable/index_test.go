package locktable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// An index that was filled at once goes on as one that was filled name by name.
func TestIndexFilled(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all []string
	for i := range 3000 {
		all = append(all, fmt.Sprintf("%05d", i*7))
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	filled, single := index{idle: true}, index{}
	for _, name := range all {
		filled.add(name)
		filled.remove(name)
		single.add(name)
	}
	if len(filled.blocks) != 0 {
		t.Fatalf("%d blocks before it was filled", len(filled.blocks))
	}
	filled.fill(slices.Clone(all))
	for range 3000 {
		name := fmt.Sprintf("%05d", r.IntN(21000))
		if r.IntN(2) == 0 {
			filled.add(name)
			single.add(name)
		} else {
			filled.remove(name)
			single.remove(name)
		}
	}
	names := func(x *index, prefix, after string) (out []string) {
		x.after(prefix, after, func(name string) bool {
			out = append(out, name)
			return true
		})
		return out
	}
	for _, at := range [][2]string{{"", ""}, {"01", ""}, {"", "02"}, {"1", "10050"}} {
		if got, want := names(&filled, at[0], at[1]), names(&single, at[0], at[1]); !slices.Equal(got, want) || !slices.IsSorted(got) {
			t.Errorf("%q: %d names and %d", at, len(got), len(want))
		}
	}
}
