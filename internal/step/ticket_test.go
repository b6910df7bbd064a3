package step

import (
	"testing"

	"github.com/pawlproject/pawl/internal/locktable"
)

// Only what the cell wrote, for the request that it wrote it for, is a ticket.
func FuzzOpenTicket(f *testing.F) {
	secret, session := []byte("secret"), locktable.ID{1}
	f.Add(Ticket(secret, session, 7, locktable.Place{Epoch: 2, Sequence: 3}), uint64(7))
	f.Add(Ticket(secret, session, 7, locktable.Place{Epoch: 2, Sequence: 3}), uint64(8))
	f.Add([]byte("ticket"), uint64(0))
	f.Fuzz(func(t *testing.T, ticket []byte, number uint64) {
		p := ReadTicket(secret, session, number, ticket)
		if p == (locktable.Place{}) {
			return
		}
		if again := Ticket(secret, session, number, p); string(again) != string(ticket) {
			t.Fatalf("%x was opened as %v, whose ticket is %x", ticket, p, again)
		}
	})
}

func TestTicketIsForOneRequest(t *testing.T) {
	secret, session, place := []byte("secret"), locktable.ID{1}, locktable.Place{Epoch: 2, Sequence: 3}
	ticket := Ticket(secret, session, 7, place)
	if got := ReadTicket(secret, session, 7, ticket); got != place {
		t.Errorf("its own request's ticket is %v", got)
	}
	for what, got := range map[string]locktable.Place{
		"another number":  ReadTicket(secret, session, 8, ticket),
		"another session": ReadTicket(secret, locktable.ID{2}, 7, ticket),
		"another cell":    ReadTicket([]byte("other"), session, 7, ticket),
	} {
		if got != (locktable.Place{}) {
			t.Errorf("%s takes it for %v", what, got)
		}
	}
}
