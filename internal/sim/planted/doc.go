// Package planted holds the planted bugs: mistakes that this field ships, each
// in the place where we would have made it. A checker that has caught no planted
// bug is no checker.
//
// A bug is data. It is applied to a copy of the files that it changes, and the
// copy is compiled with go build -overlay. The code that ships holds nothing of
// it. Command hunt (make planted) applies one bug after the other and looks for
// it.
//
// It promises:
//
//   - every bug applies to the present files, at one place only, and leaves Go that
//     parses (a quick test);
//   - every bug is found in each of the ways that it names (make planted);
//   - a bug that does not compile, a test that fails without the bug, and one that
//     hangs with it count as not found (make planted);
//   - docs/internals/planted.md says what the bugs say (a quick test).
//
// It does not promise that a bug is the only way to make its mistake.
//
// # Format
//
// bugs/ROOM.txt holds the bugs of one room, one below the other:
//
//	# A comment.
//	bug: release by name
//	why: a late release ends a newer lease
//	ships: a release names the name alone
//	found: sim 18 I5
//	found: test ./test/linear TestSimulatedLinearizable/told
//	file: internal/locktable/decide_lease.go
//	 		l = s.holding(t, c.Token)
//	+		if l == nil {
//	+			l = s.leases.head
//	+		}
//	 	} else {
//
// The fields come in this order, each with one line:
//
//   - bug: its name, which no other bug has;
//   - why: why it is a bug: what goes wrong;
//   - ships (optional): the mistake that other systems ship and this bug stands
//     for, in their words;
//   - found (once or more): a way in which it is found, see below;
//   - file (once or more): the path of a file from the root of the repository, with
//     the changes to it below.
//
// A change is written as in a diff, without line numbers: a line that begins with
// a space stays, one that begins with - goes, one that begins with + comes. What
// stays and what goes, taken together, are whole lines that occur exactly once in
// the file. A line @@ alone begins another change to the same file. Changes apply
// in order, each to what the one before left. A line that is empty stands for an
// empty line that stays; at the end of a change it stands for nothing. An import
// that the bug needs, or needs no more, is a change like any other.
//
// A bug is found in one of these ways; more than one found line asks for all of
// them:
//
//   - sim SEED INVARIANT: the simulated world of this seed (internal/sim) fails. When
//     it does not, hunt looks through the worlds from seed 1 on. A new bug says sim
//     alone, and make planted-table fills in seed and invariant;
//   - small WORLD INVARIANT: the small world of this name, in which every order is
//     tried (internal/sim/small and appends below it), breaks the invariant. A new
//     bug may leave the invariant out;
//   - test PACKAGE REGEXP [INVARIANT]: the tests of a package (a folder from the root,
//     ./internal/trust) that match the expression, as in go test -run, fail within a
//     minute. They pass without the bug. Where an invariant is named, what they print
//     names it.
package planted
