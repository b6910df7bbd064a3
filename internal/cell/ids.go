package cell

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/pawlproject/pawl/internal/locktable"
)

// secretID is a session's or a lease's id: a capability of 128 bits. The table
// and the log know only its hash.
type secretID [16]byte

func drawID() (id secretID) {
	rand.Read(id[:])
	return id
}

func (id secretID) String() string { return hex.EncodeToString(id[:]) }

func (id secretID) hash() locktable.ID { return derive("pawl id", id[:]) }

// parseID reads 32 hex digits. Anything else is nobody's id.
func parseID(s string) (id secretID, ok bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, false
	}
	return secretID(b), true
}

// ownSession is the id of the session that a lease has to itself.
func (id secretID) ownSession() secretID { return secretID(derive("own session", id[:])) }

// repeatable derives a lease's id from a request id and a salt that only the log keeps.
// So a repeated request gets the same id after a take-over, although the log holds no
// id.
func repeatable(cell, identity, requestID string, salt []byte) secretID {
	return secretID(derive("lease", []byte(cell), []byte(identity), []byte(requestID), salt))
}

// requestKey is what the log keeps of a request id.
func requestKey(identity, requestID string) locktable.ID {
	return derive("request", []byte(identity), []byte(requestID))
}

// derive hashes parts so that no two lists of parts are alike.
func derive(what string, parts ...[]byte) locktable.ID {
	h := sha256.New()
	h.Write([]byte(what))
	var n [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	return locktable.ID(h.Sum(nil)[:16])
}

const ticketLen = 16 + 16

// sealTicket writes the place in a queue of a session's request. Only the cell can make
// a valid ticket, and no client can use one twice to get in front: a request's number
// is used once.
func sealTicket(secret []byte, session locktable.ID, number uint64, p locktable.Place) []byte {
	b := make([]byte, 16, ticketLen)
	binary.BigEndian.PutUint64(b, p.Epoch)
	binary.BigEndian.PutUint64(b[8:], p.Sequence)
	return append(b, ticketMAC(secret, session, number, b)...)
}

// openTicket reads a ticket; the zero Place when it is not one that the cell
// wrote for this request.
func openTicket(secret []byte, session locktable.ID, number uint64, ticket []byte) locktable.Place {
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
