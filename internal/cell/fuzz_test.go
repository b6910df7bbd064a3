package cell

import (
	"testing"

	"github.com/pawlproject/pawl/internal/locktable"
)

// Only what the cell wrote, for the request that it wrote it for, is a ticket.
func FuzzOpenTicket(f *testing.F) {
	secret, session := []byte("secret"), locktable.ID{1}
	f.Add(sealTicket(secret, session, 7, locktable.Place{Epoch: 2, Sequence: 3}), uint64(7))
	f.Add(sealTicket(secret, session, 7, locktable.Place{Epoch: 2, Sequence: 3}), uint64(8))
	f.Add([]byte("ticket"), uint64(0))
	f.Fuzz(func(t *testing.T, ticket []byte, number uint64) {
		p := openTicket(secret, session, number, ticket)
		if p == (locktable.Place{}) {
			return
		}
		if again := sealTicket(secret, session, number, p); string(again) != string(ticket) {
			t.Fatalf("%x was opened as %v, whose ticket is %x", ticket, p, again)
		}
	})
}

func TestTicketIsForOneRequest(t *testing.T) {
	secret, session, place := []byte("secret"), locktable.ID{1}, locktable.Place{Epoch: 2, Sequence: 3}
	ticket := sealTicket(secret, session, 7, place)
	if got := openTicket(secret, session, 7, ticket); got != place {
		t.Errorf("its own request's ticket is %v", got)
	}
	for what, got := range map[string]locktable.Place{
		"another number":  openTicket(secret, session, 8, ticket),
		"another session": openTicket(secret, locktable.ID{2}, 7, ticket),
		"another cell":    openTicket([]byte("other"), session, 7, ticket),
	} {
		if got != (locktable.Place{}) {
			t.Errorf("%s takes it for %v", what, got)
		}
	}
}

// An id is 32 hex digits, and nothing else is anybody's.
func FuzzParseID(f *testing.F) {
	f.Add(drawID().String())
	f.Add("0123456789ABCDEF0123456789abcdef")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := parseID(s)
		switch {
		case !ok && id != (secretID{}):
			t.Fatalf("%q is nobody's id and gives %v", s, id)
		case ok && len(s) != 32:
			t.Fatalf("%q is taken for %v", s, id)
		}
	})
}
