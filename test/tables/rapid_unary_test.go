package tables

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// session opens one without a stream.
func (h *history) session(t *rapid.T) {
	h.made++
	name := fmt.Sprintf("h%d", h.made)
	h.do(t, locktable.OpenSession{Ref: name, New: h.id(name), TTL: 2 * time.Second}, nil)
}

// once acquires without a stream, for a session that has none or for one of its
// own.
func (h *history) once(t *rapid.T) {
	h.made++
	u := fmt.Sprintf("u%d", h.made)
	w := &mWaiter{ref: u}
	c := locktable.Acquire{
		Ref: u, Lease: h.id(u + ".lease"), Salt: []byte(u + ".lease"), RequestKey: h.id(u + ".request"),
		Own: h.id(u + ".own"), TTL: 3 * time.Second, Try: rapid.Bool().Draw(t, "try"),
	}
	if rapid.Bool().Draw(t, "own") {
		name, s := h.live(t, false)
		w.session, c.Session = name, h.id(name)
		s.renewed(h.m.real, 0)
		s.vague = true
	}
	c.Names, c.LockDelay = h.want(t, w)
	c.Claims, c.RideThrough = w.claims, w.ride
	c.Mode, c.Slots = w.mode, w.slots
	w.asked = c
	h.do(t, c, w)
}

// detachWaiter ends the connection of who waits without a stream. Its place is kept, and
// passed over.
func (h *history) detachWaiter(t *rapid.T) {
	w := h.unary(t, false)
	w.detached, w.kept = true, h.m.real+bounds.PlaceKept
	h.do(t, locktable.DetachWaiter{Waiter: w.ref}, nil)
}

// unary draws a waiter without a stream; detached: its connection may have ended.
func (h *history) unary(t *rapid.T, detached bool) *mWaiter {
	var all []*mWaiter
	for _, w := range h.m.waiters {
		if w.number == 0 && (detached || !w.detached) {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		t.Skip("nobody waits without a stream")
	}
	return rapid.SampledFrom(all).Draw(t, "waiter")
}

// repeat sends the request of a waiter without a stream again, on another
// connection: it takes the place.
func (h *history) repeat(t *rapid.T) {
	w := h.unary(t, true)
	if w.detached && h.m.real >= w.kept {
		t.Skip("its place may be gone")
	}
	h.made++
	u := fmt.Sprintf("u%d", h.made)
	c := w.asked
	c.Ref, c.Lease, c.Salt, c.Own, c.Try = u, h.id(u+".lease"), []byte(u+".lease"), h.id(u+".own"), false
	if c.Session != (locktable.ID{}) {
		c.Own = locktable.ID{}
		s := h.m.sessions[w.session]
		s.renewed(h.m.real, 0)
		s.vague = true
	}
	w.asked, w.ref, w.detached = c, u, false
	for _, r := range h.do(t, c, w).Replies {
		if r.To == u {
			if x, ok := r.Answer.(locktable.Waiting); !ok || x.Place != w.place {
				t.Fatalf("%s repeats what waits at %v, and is answered %+v", u, w.place, r.Answer)
			}
			return
		}
	}
	t.Fatalf("%s is not answered", u)
}
