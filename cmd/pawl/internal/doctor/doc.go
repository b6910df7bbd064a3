// Package doctor looks at a cell from outside and says what needs a hand.
//
//	Ask: every server and what it tells ──► Facts ──► Judge ──► findings, the worst first
//
// Judge is pure: what it says depends on the facts alone. Ask reads and changes nothing;
// it needs the right that "pawl status" needs, and for most of it admin of all names.
// What it could not look at for want of that right is a finding of its own.
//
// A finding that is a warning or an error says what to do. The absence of findings does
// not promise that the cell is well: doctor knows what servers tell, at one moment.
package doctor
