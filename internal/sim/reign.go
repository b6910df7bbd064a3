package sim

import (
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// reign is one tenure, as the server that claimed it serves it. Two of them may
// serve at one time: a server may learn that it claimed a tenure when that is over.
type reign struct {
	server *server
	epoch  uint64
	nonce  store.Nonce
	// opening is the number of its first batch, sum that batch's.
	opening uint64
	sum     store.Sum
	// served is when it began to serve.
	served time.Duration
	// heard is the last message of each session that this server received.
	heard map[locktable.ID]heard
}

// heard is when a session was heard last, and on which generation of its stream.
type heard struct {
	generation uint64
	at         time.Duration
}

// serves takes in that a server begins to serve its tenure, with the opening batch
// that it landed, and holds its table against the log (I9).
func (r *referee) serves(s *server, opening []byte) {
	h, err := store.HeaderOf(opening)
	if err != nil {
		r.world.fail("I4", "the opening batch of %s does not read: %v", s.name, err)
		return
	}
	s.reign = &reign{
		server: s, epoch: s.tenure.Epoch(), nonce: s.tenure.Nonce(), opening: h.Number, sum: h.Sum,
		served: r.world.now, heard: map[locktable.ID]heard{},
	}
	r.reigns[s.reign.nonce] = s.reign
	r.tally.Tenures++
	// What lies behind its opening batch is of others who were quicker, or were so
	// before the store was set back.
	if r.logged(h) {
		r.compare(s, int(h.Number), "at a take-over")
	}
}

// current is the reign whose tenure is in force; nil: nobody serves it yet.
func (r *referee) current() *reign { return r.reigns[r.tenure.nonce] }

// logged reports whether a batch is in the durable log.
func (r *referee) logged(h store.Header) bool {
	return h.Number <= uint64(len(r.log)) && r.sums[h.Number-1] == h.Sum
}
