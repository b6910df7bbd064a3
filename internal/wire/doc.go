// Package wire is the link's language without its connections: what a client's message
// means as commands to the cell, and what the cell's answers are as messages to a
// client. It reads no clock, starts no goroutine and knows no rights.
//
//	session ──► ClientMessage ─ ─ ─ connection ─ ─ ─ ► Sort ──► cell.Message ──► cell
//	session ◄── ServerMessage ◄─ ─ ─ connection ─ ─ ─ ─ Packer ◄── answers ◄────── cell
//
// It promises that what one version of ours writes the next one reads, and that a
// message which this package has checked is within its bounds.
//
// It does not check rights: the link does
// (package access), and the lock table says what is valid.
package wire
