// Command hunt plants one bug after the other and looks for each in every way that it
// names: go run ./internal/sim/hunt, from the root of the repository.
//
// It prints a line for each bug, and at the end how many bugs there are, how many were
// caught in all their ways, and how many compile. It exits with 1 when a bug was not
// caught. It also runs each known seed and each test once without a bug, as these must
// pass. make small searches the small worlds without a bug.
package main
