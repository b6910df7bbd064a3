// Package peerconn holds what the connections among a quorum's peers have: their
// certificates, and bounds of silence.
//
// It promises that certificates and authorities that were renewed count from the next
// handshake on, that a caller without a certificate for a known host is refused before it
// is read from, and that a peer that is cut off keeps no connection longer than ReadMax.
//
// It does not decide which hosts are known, nor what a caller may ask: its user does.
package peerconn
