package cell

import "github.com/pawlproject/pawl/internal/locktable"

// endReceiver takes what the table tells of ends.
type endReceiver struct{ report func(locktable.Ended) }

func (w *endReceiver) Receive(_ uint64, a locktable.Answer) {
	if e, ok := a.(locktable.Ended); ok {
		w.report(e)
	}
}
