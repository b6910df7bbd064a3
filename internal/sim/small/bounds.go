package small

// Bounds limit what happens in a world. A number without another comment is how often
// something may happen in the whole world.
type Bounds struct {
	Name string
	// Depth bounds the actions after the beginning.
	Depth int
	// Ticks of so many Quarters of the TTL each. Coarse ticks reach further.
	Ticks, Quarters int
	// Renewals that clients send, and greetings of another server.
	Renewals, Greetings int
	// TTLs: renewals that ask for another TTL, one or two seconds.
	TTLs int
	// Acquires, Releases, and Breaks, asked for and forced.
	Acquires, Releases, Breaks int
	// Takes: take-overs.
	Takes int
	// Restarts: a server whose tenure is in force may start anew, and take over.
	Restarts bool
	// Follows: a server that stands by reads on.
	Follows int
	// Unheard: writes that land and whose answers are lost. Late: writes that
	// stay under way, to land at any time or never, and again once they did.
	Unheard, Late int
	// Full: appends that the store refuses for want of room, to be tried again.
	Full int
	// SlowConfirms: between the reading of the tenure and its answer other
	// things may happen.
	SlowConfirms int
	// Writes at the resource, by all holders; without any, nothing is claimed.
	Writes int
	// Alone: the second client has a session, and is not heard of any more.
	Alone bool
}

// Worlds are those that make small looks through. Each turns to one part of the
// protocol, so that it can be deep there.
var Worlds = []Bounds{
	// Who is renewed is not ended: renewals, silence, expiry, take-over (I5).
	{Name: "renewals", Depth: 14, Ticks: 3, Quarters: 2, Renewals: 2, Greetings: 1, Takes: 1, SlowConfirms: 1, Alone: true},
	// The same by the quarter: expiry as it is counted.
	{Name: "expiry", Depth: 20, Ticks: 7, Quarters: 1, Renewals: 1, Takes: 1, Alone: true},
	// What was promised under one TTL holds under the next (I5).
	{Name: "ttls", Depth: 20, Ticks: 4, Quarters: 2, TTLs: 2, Takes: 1, Alone: true},
	// A store that is full: renewals go before records of others, and not before those
	// of their own session (I3, I5).
	{Name: "full", Depth: 8, Ticks: 2, Quarters: 2, Renewals: 2, Releases: 1, Greetings: 1, Takes: 1, Full: 1},
	// Nothing late does harm: appends, cuts, tenures in a row (I1–I4, I9).
	{Name: "tenures", Depth: 12, Acquires: 1, Releases: 2, Takes: 2, Greetings: 1, Unheard: 1, Late: 2, SlowConfirms: 1},
	// Who follows the log takes over with what the log has: holes, cuts, and tenures in a
	// row meanwhile (I3, I4, I9).
	{Name: "standby", Depth: 20, Breaks: 2, Takes: 3, Restarts: true, Follows: 2},
	{Name: "standby-late", Depth: 10, Breaks: 2, Takes: 2, Restarts: true, Follows: 2, Late: 1},
	// One at a time at the resource: claims, late writes, breaks (I6).
	{Name: "resource", Depth: 12, Ticks: 1, Quarters: 4, Greetings: 1, Releases: 1, Breaks: 1, Takes: 1, Writes: 2},
}
