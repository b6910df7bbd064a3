//go:build unix

package supervise

import "time"

// A lease that may ride goes on when no server answers, until a server says that it is
// gone, a guard shows that it was overtaken, or its ride-through is over. Its command
// must outlive the lease's deadline then, and must still be ended in bounded time when
// `pawl run`, which alone hears of all that, is stopped. The watcher has a copy of one
// deadline, whatever happens. So that deadline follows the lease in three steps:
//
//  1. While renewals are answered it is the lease's own. A `pawl run` that is stopped or
//     killed has its command ended by the time at which others can be granted the name,
//     as without a ride.
//  2. The command would be asked to end at deadline − margin − kill-after, before the
//     lease begins to ride. From rideFrom before the lease's deadline on, it is one TTL
//     from now, or the end of the ride-through where that is earlier, and is told to the
//     watcher at every look, every TTL/24. It rolls through the lease's deadline and on.
//     A `pawl run` that is stopped has its command ended within a TTL. One that is killed
//     has it killed at once, by the end of the pipe.
//  3. A server answers: 1 again. Or the lease ends: the deadline stays, and the command
//     is asked to end now, by Lost. Or the ride-through is nearly over: the deadline rolls
//     no further, and the command is asked to end before the lease does.
//
// A deadline of one TTL from now from the beginning would be simpler, and would let the
// command of a stopped `pawl run` go on for a renewal's interval after the name is granted
// to others, although a server had answered.
//
// A pause of the whole machine for more than a TTL ends the command: the watcher cannot
// tell it from a `pawl run` that was stopped.

// Rider is a lease that may ride, as the SDK gives it (*pawl.Lease).
type Rider interface {
	Held
	// RideLeft is the time until the lease ends when no server answers; 0 when it has
	// ended.
	RideLeft() time.Duration
}

// ride is what Followed knows of one.
type ride struct {
	left func() time.Duration
	from time.Duration
}
