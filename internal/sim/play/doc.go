// Command play runs simulated worlds: go run ./internal/sim/play -seed 1 -runs
// 10000. A failure is told with the line that runs it again; a single run, and
// the first failure of many, is made smaller and drawn as a time line.
package main
