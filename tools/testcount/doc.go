// Command testcount runs a command that prints `go test -json` and shows what a
// reader wants of it: one line per package, the whole output of what failed,
// and at the end how many tests passed, failed and were skipped.
//
//	testcount [-tally FILE] COMMAND [ARGUMENT...]
//	testcount -total FILE
//
// With -tally the counts are appended to FILE as well, and -total prints the
// sum of all that was appended, so that several runs end in one line.
//
// It promises that a failure is never counted away: a package that does not
// build, a panic and a time-out count as one failure each even where no test
// can be blamed, and the exit code is the command's own. It does not promise to
// show what a passing test printed.
package main
