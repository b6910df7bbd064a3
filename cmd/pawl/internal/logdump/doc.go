// Package logdump prints what an inspection finds in a cell's store, key by key, as
// text or as JSON.
//
// It promises that nothing that is printed lets anybody act: of a field of bytes it
// shows what is known to be a hash, or a holder's value, and withholds the rest, also
// of fields that come later. What does not read is damage, or is shown by its size.
// It needs memory that is a few times the size of the key at hand.
//
// It does not verify the chain of checksums: package etcdstore does while it inspects.
package logdump
