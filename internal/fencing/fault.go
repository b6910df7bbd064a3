package fencing

import "fmt"

// fault is a broken promise.
type fault uint8

const (
	none fault = iota
	outOfOrder
	unclean
	lostUpdate
	torn
	dangling
	dishonestAck
	dishonestLoss
	twice
	notVisible
	otherBody
)

// rules say which promises the referee holds a world to.
type rules struct {
	order   bool // tokens of effects never go down
	clean   bool // no effect of an old holder after a newer one has read
	extend  bool // a write keeps what the object held
	lineage bool // a write replaces the version that it was computed from
	once    bool // the operation that all holders mean takes effect once
	visible bool // what is read never goes back to an older token
}

func (f fault) text(by, old uint8) string {
	switch f {
	case outOfOrder:
		return fmt.Sprintf("the work of %s (token %d) takes effect after one of %s (token %d)", letter(old), old, letter(by), by)
	case unclean:
		return fmt.Sprintf("the work of %s (token %d) takes effect after %s (token %d) has taken over and read", letter(old), old, letter(by), by)
	case lostUpdate:
		return fmt.Sprintf("the work of %s (token %d) removes what it has never read: an update is lost", letter(by), by)
	case torn:
		return "nothing is on its way any more, and the two objects do not belong together"
	case dangling:
		return "the manifest refers to an object that was deleted"
	case dishonestAck:
		return fmt.Sprintf("%s (token %d) takes its work for done, but later holders do not have it", letter(by), by)
	case dishonestLoss:
		return fmt.Sprintf("%s (token %d) takes its work for refused, but it is what the store holds", letter(by), by)
	case twice:
		return "the effect happens twice"
	case notVisible:
		return fmt.Sprintf("a value of %s (token %d) is read again after one of %s (token %d)", letter(old), old, letter(by), by)
	case otherBody:
		return fmt.Sprintf("%s (token %d) is told that its request was carried out, but another body was", letter(by), by)
	}
	return ""
}

// letter is the name of the client with this token.
func letter(tok uint8) string {
	if tok == 0 || tok > clients {
		return "the collector"
	}
	return string(rune('A' + tok - 1))
}

// blame records the first fault.
func (s *state) blame(f fault, by, old uint8) {
	if s.mon.fault == none {
		s.mon.fault, s.mon.by, s.mon.old = f, by, old
	}
}

// takeover records that the holder of the token has read what it will act upon.
func (s *state) takeover(tok uint8) { s.mon.mark = max(s.mon.mark, tok) }

// effect has the referee look at a write that takes effect.
func (w *world) effect(s *state, tok uint8) {
	if tok == 0 || tok > clients {
		return
	}
	if w.rules.order && tok < s.mon.top {
		s.blame(outOfOrder, s.mon.top, tok)
	}
	if w.rules.clean && tok < s.mon.mark {
		s.blame(unclean, s.mon.mark, tok)
	}
	s.mon.top = max(s.mon.top, tok)
}
