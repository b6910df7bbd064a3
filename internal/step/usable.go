package step

import (
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// ShareMax bounds what one reading of the clock can add to usable time: a
// longer stall of the server or of its store is not held against clients.
const ShareMax = 250 * time.Millisecond

// shareMin spares the store a Confirm for every turn of a busy loop.
const shareMin = 25 * time.Millisecond

// usable counts the time in which the tenure was in force and the loop turned.
// A share is the time between two readings; it counts when something that began
// at or after the later reading was confirmed by the store. While it is not,
// no new reading is taken, so at most one share is pending and the rest of a
// stall is lost.
type usable struct {
	low     time.Duration
	last    clock.Reading
	pending time.Duration
	// turn of the pending share; 0: none is pending.
	turn uint64
}

// read takes a share at the beginning of a turn when none is pending and it
// would be worth a Confirm.
func (u *usable) read(now clock.Reading, turn uint64) {
	if u.turn == 0 && now.Shorter(u.last) >= shareMin {
		share := min(now.Shorter(u.last), ShareMax)
		u.pending, u.turn, u.last = share, turn, now
	}
}

// confirmed counts the pending share when what was confirmed began at or after
// its turn.
func (u *usable) confirmed(turn uint64) {
	if u.turn != 0 && u.turn <= turn {
		u.low += u.pending
		u.pending, u.turn = 0, 0
	}
}

// high is the most that low can become by counting time before now.
func (u *usable) high(now clock.Reading) time.Duration {
	return u.low + u.pending + min(now.Shorter(u.last), ShareMax)
}
