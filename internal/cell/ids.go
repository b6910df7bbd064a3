package cell

import (
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
