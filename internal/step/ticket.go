package step

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/pawlproject/pawl/internal/locktable"
)

const ticketLen = 16 + 16

// Ticket writes the place in a queue of a session's request. Only the cell can make a
// valid ticket, and no client can use one twice to get in front: a request's number is
// used once.
func Ticket(secret []byte, session locktable.ID, number uint64, p locktable.Place) []byte {
	b := make([]byte, 16, ticketLen)
	binary.BigEndian.PutUint64(b, p.Epoch)
	binary.BigEndian.PutUint64(b[8:], p.Sequence)
	return append(b, ticketMAC(secret, session, number, b)...)
}

// ReadTicket reads a ticket; the zero Place when it is not one that the cell
// wrote for this request.
func ReadTicket(secret []byte, session locktable.ID, number uint64, ticket []byte) locktable.Place {
	if len(ticket) != ticketLen || !hmac.Equal(ticketMAC(secret, session, number, ticket[:16]), ticket[16:]) {
		return locktable.Place{}
	}
	return locktable.Place{
		Epoch: binary.BigEndian.Uint64(ticket), Sequence: binary.BigEndian.Uint64(ticket[8:]),
	}
}

func ticketMAC(secret []byte, session locktable.ID, number uint64, place []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("ticket"))
	m.Write(session[:])
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], number)
	m.Write(n[:])
	m.Write(place)
	return m.Sum(nil)[:16]
}
