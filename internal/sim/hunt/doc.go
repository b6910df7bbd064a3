// Command hunt plants one bug after the other and has the simulator look for
// each: go run -tags planted ./internal/sim/hunt.
package main
