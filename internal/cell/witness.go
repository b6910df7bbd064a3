package cell

import "github.com/pawlproject/pawl/internal/locktable"

// witness takes what the table tells of ends.
type witness struct{ told func(locktable.Ended) }

func (w *witness) Receive(_ uint64, a locktable.Answer) {
	if e, ok := a.(locktable.Ended); ok {
		w.told(e)
	}
}
