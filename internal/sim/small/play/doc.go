// Command play looks through the small worlds, each in full: go run
// ./internal/sim/small/play. It ends with status 1 when an invariant is broken.
package main
