package fencing

import (
	"fmt"
	"strings"

	"github.com/pawlproject/pawl/internal/fencing/table"
)

// fillPage writes what is generated into a page, between the marks that name it.
func fillPage(page string, t table.Table) (string, error) {
	for _, part := range []struct {
		name string
		text func(table.Table) string
	}{{"stores", storesText}, {"table", tableText}, {"conditions", conditionsText}, {"examples", examplesText}, {"bounds", boundsText}} {
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

func conditionsText(t table.Table) string {
	var b strings.Builder
	for _, s := range t.Strategies {
		fmt.Fprintf(&b, "### %s\n\n%s: %s\n\n", s.Key, upper(s.Name), s.How)
		for _, line := range linesOf(t, s.Key) {
			b.WriteString("* " + line + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// linesOf says what holds for the operations of a strategy; operations that have the same
// verdict share a line.
func linesOf(t table.Table, strategy string) []string {
	var lines []string
	var ops [][]string
	for _, op := range Operations {
		line := lineOf(cellOf(t, strategy, op))
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

func lineOf(c table.Cell) string {
	switch c.Verdict {
	case table.Safe:
		return "**safe**."
	case table.Unsafe:
		return "**unsafe**: " + c.Lacks[0].Fault + "."
	case table.If:
		var all []string
		for _, l := range c.Lacks {
			all = append(all, l.Condition)
		}
		if len(all) == 1 {
			return "**safe if** " + all[0] + "."
		}
		return "**safe if** (1) " + numbered(all) + "."
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

func examplesText(t table.Table) string {
	var b strings.Builder
	for _, c := range t.Cells {
		for _, l := range c.Lacks {
			if l.Figure == "" {
				continue
			}
			fmt.Fprintf(&b, "#### %s, %s\n\n", c.Strategy, c.Operation)
			if l.Condition != "" {
				fmt.Fprintf(&b, "What is left out: %s.\n\n", l.Condition)
			}
			fmt.Fprintf(&b, "![%s](fencing/%s)\n\n", l.Fault, l.Figure)
		}
	}
	return b.String()
}

func boundsText(t table.Table) string {
	var b strings.Builder
	b.WriteString("| what may go wrong in one run | where |\n|---|---|\n")
	var faults []string
	users := map[string][]string{}
	states := 0
	for _, c := range t.Cells {
		states += c.States
		if c.Faults == "" {
			continue
		}
		if users[c.Faults] == nil {
			faults = append(faults, c.Faults)
		}
		users[c.Faults] = append(users[c.Faults], "`"+c.Strategy+" "+c.Operation+"`")
	}
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s | %s |\n", f, strings.Join(users[f], ", "))
	}
	fmt.Fprintf(&b, "\nAll in all %d states, in %d cells.\n", states, len(t.Cells))
	return b.String()
}
