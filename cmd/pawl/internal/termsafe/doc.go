// Package termsafe makes JSON, and messages, fit for terminals.
//
// It promises that what they hold of texts that others chose has nothing that a
// terminal obeys or that turns the order of what is read: no control characters,
// those beyond ASCII included, and none that format. JSON means the same as before.
// It does not promise to keep apart characters that look alike.
package termsafe
