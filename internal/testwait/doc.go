// Package testwait is the only place where a test waits for real time, and the
// one that says how often a repeating test repeats.
//
// It polls for a condition with a bound, so a slow machine makes a test
// slower and never wrong. Tests that can live in a testing/synctest bubble do
// not need it.
package testwait
