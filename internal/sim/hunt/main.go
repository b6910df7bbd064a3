// Command hunt plants one bug after the other and has the simulator look for
// each: go run -tags planted ./internal/sim/hunt. It begins with the seed that
// the table in docs/planted.md gives for a bug. Bugs too rare for the simulator are
// looked for in a small world, in every order.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawlproject/pawl/internal/planted"
	"github.com/pawlproject/pawl/internal/sim"
	"github.com/pawlproject/pawl/internal/sim/small"
	"github.com/pawlproject/pawl/internal/sim/small/appends"
)

var (
	limit  = flag.Uint64("seeds", 8000, "how many worlds to look through for one bug")
	only   = flag.String("bug", "", "look for this bug alone")
	table  = flag.String("table", "docs/planted.md", "the table of bugs")
	update = flag.Bool("update", false, "write the table anew")
)

func main() {
	flag.Parse()
	if !planted.Here {
		fmt.Fprintln(os.Stderr, "no bug can be planted in this build: build with -tags planted")
		os.Exit(2)
	}
	seeds := recorded()
	var rows strings.Builder
	tried, caught := 0, 0
	for _, b := range sim.Bugs {
		if *only != "" && *only != b.Name {
			continue
		}
		tried++
		seed, f := find(b, seeds[b.Name])
		if f == nil {
			fmt.Printf("%-50s not caught in %d worlds\n", b.Name, *limit)
			continue
		}
		caught++
		moved := ""
		if seed != seeds[b.Name] && !*update {
			moved = fmt.Sprintf(" (the table says %d: make planted-table)", seeds[b.Name])
		}
		fmt.Printf("%-50s seed %-5d%s %v\n", b.Name, seed, moved, f)
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | %d |\n", b.Name, b.Where, b.Why, f.Invariant, seed)
	}
	for _, b := range sim.RareBugs {
		if *only != "" && *only != b.Name {
			continue
		}
		tried++
		found := search(b.Name, b.World)
		if found == nil {
			fmt.Printf("%-50s not found in the small world %s\n", b.Name, b.World)
			continue
		}
		caught++
		fmt.Printf("%-50s small world %s: %s: %s\n", b.Name, b.World, found.Invariant, found.What)
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | small world *%s* |\n", b.Name, b.Where, b.Why, found.Invariant, b.World)
	}
	if *update && *only == "" {
		write(rows.String())
	}
	fmt.Printf("planted: %d caught: %d\n", tried, caught)
	if caught < tried {
		os.Exit(1)
	}
}

// find plants a bug and looks for it, at the known seed first.
func find(b sim.Bug, known uint64) (uint64, *sim.Failure) {
	planted.Plant(b.Name)
	defer planted.Plant("")
	if known != 0 && !*update {
		if f := sim.Run(sim.Draw(known), false).Failure; f != nil {
			return known, f
		}
	}
	return sim.Hunt(*limit)
}

// search plants a bug and looks for it in a small world; nil: it is not there.
func search(bug, world string) *small.Violation {
	planted.Plant(bug)
	defer planted.Plant("")
	for _, b := range appends.Worlds {
		if b.Name == world {
			return appends.Search(b, 0).Violation
		}
	}
	return nil
}

var row = regexp.MustCompile(`(?m)^\| ([^|]+) \| .* \| (\d+) \|$`)

// recorded reads the seeds of the table.
func recorded() map[string]uint64 {
	seeds := map[string]uint64{}
	raw, err := os.ReadFile(*table)
	if err != nil {
		return seeds
	}
	for _, m := range row.FindAllStringSubmatch(string(raw), -1) {
		seeds[m[1]], _ = strconv.ParseUint(m[2], 10, 64)
	}
	return seeds
}

const head = `# Planted bugs

A checker that has caught no planted bug is no checker. Each of these mistakes is one line in the place where we would have
made it, behind ` + "`planted.Is(…)`" + `, which is the constant false in every build but the one with ` + "`-tags planted`" + ` (see
` + "`internal/planted`" + `). ` + "`make planted`" + ` plants one after the other and has the simulator look for it, ` + "`make planted-table`" + ` writes
this page anew. The seed is the first world, from 1 on, in which the bug shows; it moves when the worlds change. Two bugs are so
rare there that they are looked for where every order is tried, in a small world ([proof](proof.md#every-order-in-small-worlds)).

| bug | where | why it is one | found by | seed |
|---|---|---|---|---|
`

const shipped = `
## What this field ships

| mistake | bug |
|---|---|
`

func write(rows string) {
	page := head + rows + shipped
	for _, x := range sim.Shipped {
		page += fmt.Sprintf("| %s | %s |\n", x.Mistake, x.Bug)
	}
	if err := os.WriteFile(*table, []byte(page), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
