// Command hunt plants one bug after the other and has the simulator look for
// each: go run -tags planted ./internal/sim/hunt.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/pawlproject/pawl/internal/planted"
	"github.com/pawlproject/pawl/internal/sim"
)

func main() {
	limit := flag.Uint64("seeds", 6000, "how many worlds to look through for one bug")
	only := flag.String("bug", "", "look for this bug alone")
	flag.Parse()
	if !planted.Here {
		fmt.Fprintln(os.Stderr, "no bug can be planted in this build: build with -tags planted")
		os.Exit(2)
	}
	tried, caught := 0, 0
	for _, b := range sim.Bugs {
		if *only != "" && *only != b.Name {
			continue
		}
		tried++
		planted.Plant(b.Name)
		seed, f := sim.Hunt(*limit)
		planted.Plant("")
		if f == nil {
			fmt.Printf("%-52s not caught in %d worlds\n", b.Name, *limit)
			continue
		}
		caught++
		fmt.Printf("%-52s seed %-5d %v\n", b.Name, seed, f)
	}
	fmt.Printf("planted: %d caught: %d\n", tried, caught)
	if caught < tried {
		os.Exit(1)
	}
}
