package locktable

import (
	"iter"
	"slices"
	"sort"
)

// goneMin is from how many shared holders on one that goes stays in the list for a
// while: to move what lies behind it is cheap below.
const goneMin = 1024

// live are the holders that have not gone, in their order.
func (l *lock) live() iter.Seq[*lease] {
	return func(yield func(*lease) bool) {
		for _, h := range l.holders {
			if !l.hasGone(h) && !yield(h) {
				return
			}
		}
	}
}

func (l *lock) hasGone(x *lease) bool {
	if len(l.gone) == 0 {
		return false
	}
	_, gone := l.gone[x]
	return gone
}

// place is where the holder of a slot stands among the holders.
func (l *lock) place(slot uint32) int {
	return sort.Search(len(l.holders), func(i int) bool { return l.holders[i].on(l).slot >= slot })
}

// removeHolder removes a lease from the holders, if it is there. A name may have a
// million shared holders, sorted by token. One in the middle is only marked as gone; it
// is taken out when a quarter of all are gone, or when it becomes the first. So each
// removal costs a search and its share of walks through the list. A holder of a slot is
// taken out at once, since the length of that list says whether a slot is free;
// SlotsMax bounds what is moved.
func (l *lock) removeHolder(x *lease) {
	at := 0
	switch x.mode {
	case Slots:
		at = l.place(x.on(l).slot)
	case Shared:
		at = sort.Search(len(l.holders), func(i int) bool { return l.holders[i].token >= x.token })
	}
	switch {
	case at == len(l.holders) || l.holders[at] != x || l.hasGone(x):
	case at == 0:
		l.holders = cut(l.holders, 0)
		for len(l.gone) > 0 && l.hasGone(l.holders[0]) {
			delete(l.gone, l.holders[0])
			l.holders = cut(l.holders, 0)
		}
	case x.mode == Slots, len(l.holders) < goneMin && len(l.gone) == 0:
		l.holders = cut(l.holders, at)
	default:
		put(&l.contended().gone, x, struct{}{})
		if len(l.gone) >= len(l.holders)/4 {
			l.compact()
		}
	}
}

// compact takes those out of the list who have gone.
func (l *lock) compact() {
	if len(l.gone) > 0 {
		l.holders = slices.DeleteFunc(l.holders, l.hasGone)
		l.gone = nil
	}
}

// cut takes one out of a list and moves what is on the shorter side.
func cut[T any](list []*T, at int) []*T {
	switch n := len(list); {
	case n == 1:
		return nil
	case at < n/2:
		copy(list[1:], list[:at])
		list[0] = nil
		return list[1:]
	}
	return slices.Delete(list, at, at+1)
}
