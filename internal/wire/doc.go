// Package wire translates the link's messages without its connections: a client's
// message into commands to the cell, and the cell's answers into messages to a
// client. It reads no clock, starts no goroutine and knows no rights.
//
//	session ──► ClientMessage ─ ─ ─ connection ─ ─ ─ ► Sort ──► cell.Message ──► cell
//	session ◄── ServerMessage ◄─ ─ ─ connection ─ ─ ─ ─ Packer ◄── answers ◄────── cell
//
// It promises that each version reads messages of the one before, and that a
// message which this package has checked is within its bounds.
//
// It does not check rights: the link does (package access). Nor does it check what a
// request asks for: the lock table does.
package wire
