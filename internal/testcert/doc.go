// Package testcert makes certificates for tests: an authority, and what it stands
// for, as PEM files in a folder. It promises nothing else, and no key of it is fit
// for anything but a test.
package testcert
