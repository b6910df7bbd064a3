// Package cells runs whole cells on a bad store: two servers on one memory
// disk, whose links lose, delay and refuse what is sent, which stall and crash,
// and clients that acquire, renew, release and come back, over unary calls and
// over streams.
//
// It promises that in such a world every grant that a client saw is in the
// durable log (I3), tokens there rise (I1) and a name has one holder (I2), no
// client trusts its lease when another is told of a later one (I5), a guard that
// was claimed refuses every older holder (I6), and when the faults end every name
// can be had again (I10).
//
// A world is drawn from a seed, but Go's scheduler has its say: a seed that
// failed fails again often, not always.
package cells
