package kvlog

import "time"

// Members is what a server knows of the store's members that are inside the servers.
type Members interface {
	// Own is the member inside this server; 0: none.
	Own() uint64
	// Gone reports that a member led, that this server's own has won the election after
	// it, and that it has not answered the new leader since. It is a reason for haste,
	// never evidence: whoever works is protected by what hastens asks for besides, and
	// whoever is deposed all the same writes nothing more.
	Gone(member uint64) bool
}

const (
	// hasteBeats is for how many signs of life a hasty standby sees none.
	hasteBeats = 1
	// hastyPace is the pause between its looks.
	hastyPace = 20 * time.Millisecond
)

// hastens reports whether this server claims before a whole ActiveTTL has passed: the
// active server's member led, and is gone. The steps of a take-over by it:
//
//  1. A is active and its member leads; both end, at once.
//  2. A member wins an election, an election time-out after A's last message at the
//     earliest. Its server B finds A's member silent for some heartbeats.
//  3. B's looks, which are linearizable, show that no sign of life of A has landed for as
//     long as A gives one. B claims, and the claim compares the last sign of life once
//     more.
//
// Nobody who works is deposed:
//
//   - A leader change below, with A at work: A's member answers the new leader, whether
//     it led before or not. Else A could not write.
//   - A standby that was stopped after its member had won, and goes on when another one
//     leads: its looks go to that one, and show A's signs of life.
//   - A sign of life that lands between the last look and the claim: the claim compares it.
//
// Who has stopped for longer than an election takes, so that its member lost the lead, and
// does not answer when the next one leads, may be deposed early. It costs a tenure; its
// sessions and leases go on.
//
// That the store may be set back meanwhile is in docs/internals/set-back.md: a member that
// starts takes part after a whole ActiveTTL alone.
func (c *claimant) hastens(now situation, waited time.Duration) bool {
	m, whole := c.opts.Members, time.Duration(now.value.ActiveTTL)
	// With another time than its own nobody knows how long members wait at their start.
	c.hasty = m != nil && whole == c.opts.ActiveTTL && now.value.Member != 0 && m.Gone(now.value.Member)
	if !c.hasty || waited < whole/10*hasteBeats {
		return false
	}
	c.opts.Logger.Info("the active server's member led and is gone; claiming at once", "epoch", now.value.Epoch, "silent", waited.Round(time.Millisecond))
	return true
}
