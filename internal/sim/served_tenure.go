package sim

import (
	"slices"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
)

// servedTenure is one tenure, as the server that claimed it serves it. Two of them may
// serve at one time: a server may learn that it claimed a tenure when that is over.
//
// # What a store that is set back leaves of what was promised
//
// A server knows the store by the batches that it was told have landed. Once one of
// those is lost its served tenure is misled, and all that it promised is void, before the
// store was set back and after: renewals answered, leases granted, sessions opened,
// places in a line, what observers were told. All other promises hold, whenever they
// were given:
//
//   - those of a served tenure that began after: it has read what is left of the log;
//   - those of a served tenure that goes on because nothing of its own is lost, such as one
//     that was set back between two batches;
//   - those of a served tenure that was over before, of which nothing is lost. What later ones
//     wrote and lost can only have been to the good of its sessions: the next one
//     finds them as this one left them, and gives them their whole time anew.
//
// A session may have promises of both kinds. Its holder counts its deadline from the
// later one and cannot tell them apart, so what it believes is held against the log
// again when the last void promise has run out: void has that time.
//
// Never void is what does not depend on what is in the store: tokens rise, over lost
// ones as well (I1); what a guard has seen counts (I6); and nothing that was asked
// after the next tenure was claimed is answered, though that claim be lost (I4).
type servedTenure struct {
	server *server
	tenure
	// opening is the number of its first batch, sum that batch's.
	opening uint64
	sum     store.Sum
	// served is when it began to serve.
	served time.Duration
	// heard is the last message of each session that this server received.
	heard map[locktable.ID]heard
	// acked are the numbers of the batches that were reported to it as landed.
	acked map[uint64]bool
	// misled: one of them is lost.
	misled bool
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
	s.served = &servedTenure{
		server: s, tenure: tenure{s.tenure.Epoch(), s.tenure.Nonce()}, opening: h.Number, sum: h.Sum,
		served: r.world.now, heard: map[locktable.ID]heard{}, acked: map[uint64]bool{h.Number: true}, misled: r.lost[h.Sum],
	}
	r.tenures[s.served.tenure] = s.served
	r.tally.Tenures++
	// What lies behind its opening batch is of others who were quicker, or were so
	// before the store was set back.
	if r.logged(h) {
		r.compare(s, int(h.Number), "at a take-over")
	}
}

// current is the served tenure whose tenure is in force; nil: nobody serves it yet.
func (r *referee) current() *servedTenure { return r.tenures[r.tenure] }

// logged reports whether a batch is in the durable log.
func (r *referee) logged(h store.Header) bool {
	return h.Number <= uint64(len(r.log)) && r.sums[h.Number-1] == h.Sum
}

// acknowledged takes in that a server is told that a batch of its own has landed.
func (r *referee) acknowledged(s *server, b step.Batch) {
	s.served.acked[b.Number] = true
	if len(r.lost) == 0 {
		return
	}
	if h, err := store.HeaderOf(b.Raw); err == nil && r.lost[h.Sum] {
		r.misleads(s.served)
	}
}

// loses takes in that a set-back has taken a batch away.
func (r *referee) loses(raw []byte) {
	h, err := store.HeaderOf(raw)
	if err != nil {
		return
	}
	r.lost[h.Sum] = true
	if x := r.tenures[tenure{h.Epoch, h.Nonce}]; x != nil && x.acked[h.Number] {
		r.misleads(x)
	}
}

// misleads makes void what a served tenure has promised.
func (r *referee) misleads(x *servedTenure) {
	x.misled = true
	for id, all := range r.promises.given { //tidy:unordered each session for itself
		r.promises.given[id] = slices.DeleteFunc(all, func(p promise) bool {
			if p.by == x {
				r.voids(id, p.until)
			}
			return p.by == x
		})
	}
}

// voids takes in that the holder of a session may believe in a void promise.
func (r *referee) voids(id locktable.ID, until time.Duration) { r.void[id] = max(r.void[id], until) }

// excused: what the holder of a session believes may come from a void promise.
func (r *referee) excused(id locktable.ID) bool { return r.void[id] > r.world.now }
