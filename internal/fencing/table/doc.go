// Package table holds what internal/fencing has found: which strategy keeps the work of an
// old holder out, for which operation, on which condition. It is what "pawl explain" and
// docs/fencing-without-a-fence.md say.
//
// It promises nothing by itself: table.json is written by `go generate ./internal/fencing`,
// and a test of package fencing fails when the checker finds anything else. The checker is
// not part of a program that imports this package.
package table
