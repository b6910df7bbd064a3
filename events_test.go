package pawl

import "testing"

// When nobody reads, the oldest events go.
func TestOldestEventsGo(t *testing.T) {
	events := make(chan Event, eventsKept)
	for n := range eventsKept + 5 {
		post(events, Event{Kind: Safe, Leases: n})
	}
	if first := <-events; first.Leases != 5 || len(events) != eventsKept-1 {
		t.Errorf("the first of %d events is number %d", len(events)+1, first.Leases)
	}
}
