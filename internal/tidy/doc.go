// Package tidy holds the house rules, as tests.
//
// It promises that a change which breaks one of these fails `make check`, with
// the file and the line:
//
//   - arrows: a package imports of ours only what its room may import;
//   - rooms: ARCHITECTURE.md has a row for every room, with about its lines;
//   - pure: the lock table, the trust window and the cell's step read no clock,
//     start no goroutine, use no randomness and range over no map unsorted;
//   - clock: nothing but internal/clock reads a clock or arms a timer;
//   - length: no file is longer than 500 lines;
//   - size: no file, of any kind, is larger than 1 MiB;
//   - doc: every package has a doc.go with a package comment;
//   - wait: no test waits for real time but through internal/testwait;
//   - words: no name holds a banned word;
//   - left-over: no comment announces work that is still to be done;
//   - links: what a document links to within the repository is there;
//   - deploy: alerts and dashboard ask for metrics that are documented, as what
//     they are, and the alerts are those of the docs;
//   - modules: a go.mod lists only what its users must have, and the module
//     graph of a user of each public package is the recorded one;
//   - api: the exported names of each public package are the recorded ones.
//
// A rule walks what git knows or could be told of, never the folder, since
// caches may lie below it. Generated code is exempt from all but the arrows and the size.
// Every rule has a test that shows it failing on a planted violation.
//
// It does not promise to see through an interface or a function value: a clock
// that is handed down under another name is not found. It imports nothing of
// ours and only the standard library, so that it weighs on nobody's go.mod.
//
// A line may be exempted by a comment on it or directly above, with a reason:
//
//	//tidy:unordered the result is a sum
//	//tidy:clock the deadline of a network call decides nothing
//	//tidy:bubble only called inside a synctest bubble
package tidy
