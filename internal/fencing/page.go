package fencing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlproject/pawl/internal/fencing/table"
)

// fillPage writes what is generated into a page, between the marks that name it.
func fillPage(page string, t table.Table) (string, error) {
	for _, part := range []struct {
		name string
		text func(table.Table) string
	}{{"stores", storesText}, {"table", tableText}, {"conditions", conditionsText}, {"bounds", boundsText}} {
		begin, end := "<!-- generated: "+part.name+" -->\n", "<!-- end: "+part.name+" -->\n"
		before, rest, ok := strings.Cut(page, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			return "", fmt.Errorf("%s has no marks for %q", PageFile, part.name)
		}
		page = before + begin + part.text(t) + end + after
	}
	return page, nil
}

func storesText(t table.Table) string {
	var b strings.Builder
	b.WriteString("| your store | what to do | what is not promised then |\n|---|---|---|\n")
	for _, s := range t.Stores {
		fmt.Fprintf(&b, "| **%s** (`%s`) | %s | %s |\n", s.Name, s.Key, linked(s.Do), linked(s.Leaves))
	}
	return b.String()
}

// linked makes links of the pages that a text names, as seen from docs.
func linked(text string) string {
	for _, page := range []string{"guards-postgres.md", "guards-objects.md", "guards-http.md"} {
		text = strings.ReplaceAll(text, "(docs/"+page+")", "([docs]("+page+"))")
	}
	return strings.ReplaceAll(text, "(guard/sqlguard)", "([sqlguard](../guard/sqlguard))")
}

// word is a verdict as the page's table has it.
func word(c table.Cell) string {
	switch c.Verdict {
	case table.Safe:
		return "**safe**"
	case table.If:
		return "[if](#" + c.Strategy + ")"
	case table.Unsafe:
		return "[unsafe](#" + c.Strategy + ")"
	}
	return "–"
}

func tableText(t table.Table) string {
	var b strings.Builder
	b.WriteString("| strategy | " + strings.Join(Operations, " | ") + " |\n|---" + strings.Repeat("|---", len(Operations)) + "|\n")
	for _, s := range t.Strategies {
		fmt.Fprintf(&b, "| [`%s`](#%s) %s |", s.Key, s.Key, s.Name)
		for _, op := range Operations {
			b.WriteString(" " + word(cellOf(t, s.Key, op)) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func cellOf(t table.Table, strategy, operation string) table.Cell {
	for _, c := range t.Cells {
		if c.Strategy == strategy && c.Operation == operation {
			return c
		}
	}
	return table.Cell{}
}

// conditionsText has a section for each strategy, with the drawings of what happens where a
// condition of it does not hold.
func conditionsText(t table.Table) string {
	var b strings.Builder
	for _, s := range t.Strategies {
		fmt.Fprintf(&b, "### %s\n\n%s: %s\n\n", s.Key, upper(s.Name), s.How)
		for _, line := range linesOf(t, s.Key) {
			b.WriteString("* " + line + "\n")
		}
		b.WriteString("\n")
		for _, op := range Operations {
			c := cellOf(t, s.Key, op)
			drawings(&b, c, beside(c, less(t, s.Key, c)))
		}
	}
	return b.String()
}

// drawings shows the drawings of a cell, of which the conditions in said were just told.
func drawings(b *strings.Builder, c table.Cell, said []string) {
	for _, l := range c.Lacks {
		if l.Figure == "" {
			continue
		}
		without := ""
		switch {
		case l.Condition != "" && len(said) == 1:
			without = " without that condition"
		case l.Condition != "":
			without = fmt.Sprintf(" without (%d)", slices.Index(said, l.Condition)+1)
		}
		fmt.Fprintf(b, "What happens at *%s*%s:\n\n![%s](fencing/%s)\n\n", c.Operation, without, l.Fault, l.Figure)
	}
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// linesOf says what holds for the operations of a strategy; operations that have the same
// verdict share a line.
func linesOf(t table.Table, strategy string) []string {
	var lines []string
	var ops [][]string
	for _, op := range Operations {
		c := cellOf(t, strategy, op)
		line := lineOf(c, less(t, strategy, c))
		same := -1
		for i := range lines {
			if lines[i] == line {
				same = i
			}
		}
		if same < 0 {
			lines, ops = append(lines, line), append(ops, nil)
			same = len(lines) - 1
		}
		ops[same] = append(ops[same], op)
	}
	for i := range lines {
		lines[i] = strings.Join(ops[i], ", ") + ": " + lines[i]
	}
	return lines
}

// less is the operation before that of a cell that depends on some of its conditions and on
// no others, so that the page need not repeat them; its operation is "" where there is none.
func less(t table.Table, strategy string, c table.Cell) (best table.Cell) {
	for _, op := range Operations {
		if op == c.Operation {
			break
		}
		o := cellOf(t, strategy, op)
		if o.Verdict != table.If || len(o.Lacks) >= len(c.Lacks) || len(o.Lacks) <= len(best.Lacks) {
			continue
		}
		if len(beside(c, o)) == len(c.Lacks)-len(o.Lacks) {
			best = o
		}
	}
	return best
}

// beside are the conditions of a cell that another does not have.
func beside(c, o table.Cell) []string {
	var all []string
	for _, l := range c.Lacks {
		if !slices.ContainsFunc(o.Lacks, func(k table.Lack) bool { return k.Condition == l.Condition }) {
			all = append(all, l.Condition)
		}
	}
	return all
}

// lineOf says what holds for a cell; known is another, whose conditions are not repeated.
func lineOf(c, known table.Cell) string {
	switch c.Verdict {
	case table.Safe:
		return "**safe**."
	case table.Unsafe:
		return "**unsafe**: " + c.Lacks[0].Fault + "."
	case table.If:
		all := beside(c, known)
		begin := "**safe if** "
		if known.Operation != "" {
			begin = "**safe if**, beside what " + known.Operation + " needs, "
		}
		if len(all) == 1 {
			return begin + all[0] + "."
		}
		return begin + "(1) " + numbered(all) + "."
	}
	return "does not apply: " + c.None + "."
}

func numbered(all []string) string {
	text := all[0]
	for i, s := range all[1:] {
		text += fmt.Sprintf("; and (%d) %s", i+2, s)
	}
	return text
}

func boundsText(t table.Table) string {
	var b strings.Builder
	b.WriteString("| what may go wrong in one run | strategies with an operation |\n|---|---|\n")
	var faults []string
	cells := map[string]int{}
	states, all := 0, 0
	for _, c := range t.Cells {
		states += c.States
		if c.Faults == "" {
			continue
		}
		if cells[c.Faults] == 0 {
			faults = append(faults, c.Faults)
		}
		cells[c.Faults]++
		all++
	}
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s | %d |\n", f, cells[f])
	}
	fmt.Fprintf(&b, "| all, in %d states | %d |\n", states, all)
	return b.String()
}
