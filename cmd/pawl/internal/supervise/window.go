package supervise

import (
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Renewals are sent every TTL/6, give or take a tenth.
const (
	renewalsPerTTL = locktable.RenewalsPerTTL
	marginMin      = 250 * time.Millisecond
	marginShare    = 50
	killAfterMax   = 5 * time.Second
	takeoverMargin = 2 * time.Second
)

// Margin is what is kept between the kill and the lease's deadline, for the
// kernel to carry the kill out: max(250 ms, TTL/50).
func Margin(ttl time.Duration) time.Duration { return max(marginMin, ttl/marginShare) }

// DefaultKillAfter is how long a command has between the request to end and the
// kill where the user does not say: min(5 s, TTL/3).
func DefaultKillAfter(ttl time.Duration) time.Duration { return min(killAfterMax, ttl/3) }

// Fits reports whether two renewals can fail before a command under a lease of
// this TTL must be asked to end: 2·TTL/6 + killAfter + Margin(TTL) ≤ TTL.
func Fits(ttl, killAfter time.Duration) bool {
	return ttl >= bounds.TTLMin && 2*ttl/renewalsPerTTL+killAfter+Margin(ttl) <= ttl
}

// MinTTL is the least TTL, in whole milliseconds, that Fits killAfter.
func MinTTL(killAfter time.Duration) time.Duration {
	// For a TTL below marginShare·marginMin the margin is constant: TTL·2/3 ≥ killAfter
	// + marginMin. Above, it is a share of the TTL: TTL·(1 − 1/3 − 1/50) ≥ killAfter.
	// The steps make up for rounding.
	ttl := (killAfter + marginMin) * 3 / 2
	if ttl > marginShare*marginMin {
		ttl = killAfter * 150 / 97
	}
	ttl = max(bounds.TTLMin, ttl.Truncate(time.Millisecond))
	for !Fits(ttl, killAfter) {
		ttl += time.Millisecond
	}
	return ttl
}

// RidesOutTakeover reports whether a renewal that is due just as the active
// server dies can still be answered by its successor before the command must be
// asked to end: one renewal interval at its longest, activeTTL + 2 s for the
// take-over, killAfter and Margin(TTL) are within the TTL.
func RidesOutTakeover(ttl, killAfter, activeTTL time.Duration) bool {
	interval := ttl * 11 / (10 * renewalsPerTTL)
	return interval+activeTTL+takeoverMargin+killAfter+Margin(ttl) <= ttl
}

// Grace is for how long no server may answer, at worst, before a command under a
// lease of this TTL is asked to end: it begins just before a renewal is due.
func Grace(ttl, killAfter time.Duration) time.Duration {
	return ttl - ttl*11/(10*renewalsPerTTL) - killAfter - Margin(ttl)
}

// rideFrom is how long before the deadline of a lease that may ride its command's deadline
// begins to roll: a quarter of the TTL before the command would be asked to end, which is
// six looks at the lease. Renewals that are answered keep more than that, unless killAfter
// is longer than the default.
func rideFrom(ttl, killAfter time.Duration) time.Duration {
	return killAfter + Margin(ttl) + ttl/4
}

// window is until when a command may run undisturbed and until when at all.
type window struct{ Term, Kill time.Duration }

func windowOf(deadline, killAfter, margin time.Duration) window {
	kill := deadline - margin
	return window{Term: kill - killAfter, Kill: kill}
}

// ending is w for a command that is asked to end now and has killAfter for it,
// within what w allows at most.
func (w window) ending(now, killAfter time.Duration) window {
	return window{Term: min(now, w.Term), Kill: min(now+killAfter, w.Kill)}
}
