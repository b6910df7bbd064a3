package planted

import (
	"fmt"
	"strings"
)

// PagePath is the page of the bugs, from the root of the repository.
const PagePath = "docs/internals/planted.md"

const head = `# Planted bugs

A checker that has caught no planted bug is no checker. Each of these mistakes lies in the place where we would have made it.
They are data ([` + "`internal/sim/planted`" + `](../../internal/sim/planted/doc.go) describes the format): each is applied to a copy of the files
that it changes, so the code that ships holds none of them. ` + "`make planted`" + ` applies one after the other and looks for it in every
way that the table names. ` + "`make planted-table`" + ` does the same, looks for new seeds where the known ones find nothing any more,
and writes this page.

A *seed* is that of a simulated world in which the bug shows. A *small world* is one in which every order of events is tried
([proof](proof.md#every-order-in-small-worlds)); a bug that only small worlds find is too rare for the simulator. After a seed or a
world stands what breaks there. A test fails with the bug, and passes without it. Most bugs that a test alone finds had passed all
tests and 500 worlds at first, and the test was written for them.

| bug | where | why it is one | found by |
|---|---|---|---|
`

const shipped = `
## What this field ships

| mistake | bug |
|---|---|
`

// Page is the page of the bugs.
func Page(bugs []Bug) string {
	var page strings.Builder
	page.WriteString(head)
	for _, b := range bugs {
		var ways []string
		for _, w := range b.Ways {
			ways = append(ways, w.words())
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", b.Name, b.Room, b.Why, strings.Join(ways, ", "))
	}
	page.WriteString(shipped)
	for _, b := range bugs {
		if b.Ships != "" {
			fmt.Fprintf(&page, "| %s | %s |\n", b.Ships, b.Name)
		}
	}
	return page.String()
}

// words are the way as the page says it.
func (w Way) words() string {
	var s string
	switch w.By {
	case BySim:
		s = fmt.Sprintf("seed %d", w.Seed)
	case BySmall:
		s = fmt.Sprintf("small world *%s*", w.World)
	default:
		s = fmt.Sprintf("`%s` in `%s`", w.Run, strings.TrimPrefix(w.Package, "./"))
	}
	if w.Invariant != "" {
		s += " (" + w.Invariant + ")"
	}
	return s
}
