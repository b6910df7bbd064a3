// Package termsafe makes JSON and messages safe to print on terminals.
//
// It promises that text chosen by others contains nothing that a terminal interprets or
// that changes the reading order: no control characters, including those beyond ASCII,
// and no formatting characters. The JSON means the same as before. It does not promise
// to tell apart characters that look alike.
package termsafe
