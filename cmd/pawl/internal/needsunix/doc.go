//go:build unix

// Package needsunix is empty. The binary imports it, so that building pawl
// for another system fails with one line that names the reason, "build constraints
// exclude all Go files in …/needsunix", and not by what fails to compile: the
// server locks its folder as a Unix does, and `pawl run` knows process groups.
//
// It promises nothing else. The SDK and the guards need no Unix.
package needsunix
