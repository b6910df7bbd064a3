// Command hunt plants one bug after the other and looks for each in every way
// that it names: go run ./internal/sim/hunt, from the root of the repository.
//
// It prints a line for each bug, and at the end how many there are and how many
// were caught: in all their ways, and in what compiles. It ends with status 1
// when one was not. Without a bug it runs once what it counts as a sign of one:
// each known seed and each test. Small worlds without a bug are looked through by
// make small.
package main
