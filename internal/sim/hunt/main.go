package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pawlproject/pawl/internal/sim/planted"
)

var (
	only   = flag.String("bug", "", "look for this bug alone")
	room   = flag.String("room", "", "look for the bugs of this room alone")
	by     = flag.String("by", "", "look in this way alone: sim, small or test")
	limit  = flag.Uint64("seeds", 8000, "how many simulated worlds to look through for one bug")
	lanes  = flag.Int("lanes", 2, "how many bugs to look for at once")
	update = flag.Bool("update", false, "write new seeds and invariants into the bugs' files, and write "+planted.PagePath)
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hunt:", err)
	}
	if !ok || err != nil {
		stop()
		os.Exit(1)
	}
}

// run looks for the bugs that the flags pick, and reports whether all were
// caught.
func run(ctx context.Context) (bool, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return false, err
	}
	all, err := planted.Load(root)
	if err != nil {
		return false, err
	}
	folder, err := os.MkdirTemp("", "planted")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(folder)
	h := newHunter(root, folder)

	var picked []*planted.Bug
	for i := range all {
		b := &all[i]
		if (*only == "" || b.Name == *only) && (*room == "" || b.Room == *room) && len(waysOf(b)) > 0 {
			picked = append(picked, b)
		}
	}
	if len(picked) == 0 {
		return false, errors.New("no such bug")
	}
	caught := 0
	for i, v := range h.each(ctx, picked) {
		if v.err == nil {
			caught++
		}
		fmt.Println(v.line(picked[i]))
	}
	if *update && ctx.Err() == nil {
		if err := planted.Record(root, all); err != nil {
			return false, err
		}
		if err := os.WriteFile(filepath.Join(root, planted.PagePath), []byte(planted.Page(all)), 0o644); err != nil {
			return false, err
		}
	}
	fmt.Printf("planted: %d caught: %d\n", len(picked), caught)
	return caught == len(picked), ctx.Err()
}

// waysOf are the ways of a bug that the flags pick.
func waysOf(b *planted.Bug) []*planted.Way {
	var ways []*planted.Way
	for i := range b.Ways {
		if *by == "" || string(b.Ways[i].By) == *by {
			ways = append(ways, &b.Ways[i])
		}
	}
	return ways
}

// verdict is what became of one bug: how it was found, and what is wrong.
type verdict struct {
	found []string
	err   error
}

func (v verdict) line(b *planted.Bug) string {
	if v.err != nil {
		return fmt.Sprintf("%-50s NOT CAUGHT: %v", b.Name, v.err)
	}
	return fmt.Sprintf("%-50s %s", b.Name, strings.Join(v.found, "; "))
}

// each looks for the bugs, some at once, and gives the verdicts in order.
func (h *hunter) each(ctx context.Context, bugs []*planted.Bug) func(yield func(int, verdict) bool) {
	return func(yield func(int, verdict) bool) {
		verdicts := make([]chan verdict, len(bugs))
		for i := range verdicts {
			verdicts[i] = make(chan verdict, 1)
		}
		next := make(chan int)
		var all sync.WaitGroup
		for range *lanes {
			all.Go(func() {
				for i := range next {
					verdicts[i] <- h.hunt(ctx, i, bugs[i])
				}
			})
		}
		all.Go(func() {
			defer close(next)
			for i := range bugs {
				next <- i
			}
		})
		defer all.Wait()
		for i := range bugs {
			if !yield(i, <-verdicts[i]) {
				return
			}
		}
	}
}
