package locktable

import (
	"slices"
	"sort"
	"strings"
)

// blockMax bounds a block of the index; a full one is cut in two.
const blockMax = 512

// index keeps names in byte order, in blocks, so that a page of names costs no
// more than what it shows and a change moves at most one block's pointers.
type index struct {
	blocks [][]string
	// idle: nothing is kept until filled.
	idle bool
}

// fill puts all names in order at once, which is less work than one by one.
func (x *index) fill(names []string) {
	slices.Sort(names)
	*x = index{}
	for part := range slices.Chunk(names, blockMax/4*3) {
		x.blocks = append(x.blocks, part)
	}
}

// block finds the block where name is or belongs.
func (x *index) block(name string) int {
	i := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i][0] > name })
	return max(i-1, 0)
}

func (x *index) add(name string) {
	if x.idle {
		return
	}
	if len(x.blocks) == 0 {
		x.blocks = append(x.blocks, []string{name})
		return
	}
	i := x.block(name)
	b := x.blocks[i]
	at, found := slices.BinarySearch(b, name)
	if found {
		return
	}
	if at == blockMax && i == len(x.blocks)-1 {
		// Names that come in order leave full blocks behind, not half full ones.
		x.blocks = append(x.blocks, []string{name})
		return
	}
	b = slices.Insert(b, at, name)
	x.blocks[i] = b
	if len(b) > blockMax {
		half := slices.Clone(b[blockMax/2:])
		clear(b[blockMax/2:])
		x.blocks[i] = b[:blockMax/2]
		x.blocks = slices.Insert(x.blocks, i+1, half)
	}
}

func (x *index) remove(name string) {
	if len(x.blocks) == 0 {
		return
	}
	i := x.block(name)
	b := x.blocks[i]
	at, found := slices.BinarySearch(b, name)
	if !found {
		return
	}
	if b = slices.Delete(b, at, at+1); len(b) == 0 {
		x.blocks = slices.Delete(x.blocks, i, i+1)
		return
	}
	x.blocks[i] = b
}

// after visits the names with a prefix that come after a name, until visit
// returns false.
func (x *index) after(prefix, after string, visit func(name string) bool) {
	from := max(prefix, after)
	if len(x.blocks) == 0 {
		return
	}
	first := x.block(from)
	at, _ := slices.BinarySearch(x.blocks[first], from)
	for i := first; i < len(x.blocks); i++ {
		for _, name := range x.blocks[i][at:] {
			if after != "" && name <= after {
				continue
			}
			if !strings.HasPrefix(name, prefix) || !visit(name) {
				return
			}
		}
		at = 0
	}
}
