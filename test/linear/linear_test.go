package linear

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
)

var (
	first = flag.Uint64("seed", 1, "the first seed")
	seeds = flag.Int("seeds", 40, "how many seeds from the first on")
)

const (
	// patience is how long porcupine may look for one name's order.
	patience = 10 * time.Second
	// unknownMax is the share of histories, in percent, that it may give up on.
	unknownMax = 5
)

var errNoOrder = errors.New("no order explains it")

// verdict of one history. Of a name without an order the drawing is written to
// dir, unless that is empty.
func verdict(all []record, dir string) (checked, unknown int, err error) {
	if err := rising(all); err != nil {
		return 0, 0, err
	}
	for _, name := range names(all) {
		ops, err := steps(all, name)
		if err != nil {
			return checked, unknown, err
		}
		checked++
		result, info := porcupine.CheckOperationsVerbose(model, ops, patience)
		switch {
		case result == porcupine.Unknown:
			unknown++
		case result == porcupine.Illegal && dir == "":
			return checked, unknown, fmt.Errorf("%s: %w", name, errNoOrder)
		case result == porcupine.Illegal:
			file := filepath.Join(dir, name+".html")
			err := porcupine.VisualizePath(model, info, file)
			return checked, unknown, errors.Join(fmt.Errorf("%s: %w: see %s", name, errNoOrder, file), err)
		}
	}
	return checked, unknown, nil
}

// Whatever clients were told while everything around them broke, a simple lock
// could have said.
func TestLinearizable(t *testing.T) {
	sum := map[string]int{}
	checked, unknown := 0, 0
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		var all []record
		synctest.Test(t, func(t *testing.T) { all = play(t, seed) })
		n, lost, err := verdict(all, t.ArtifactDir())
		checked, unknown = checked+n, unknown+lost
		if err != nil {
			t.Errorf("seed %d: %v\n  again, and keep the drawing: go test ./linear -run Linearizable -artifacts -seed %d -seeds 1", seed, err, seed)
			slices.SortFunc(all, func(a, b record) int { return cmp.Compare(a.call, b.call) })
			for _, r := range all {
				t.Logf("%4d–%4d %v", r.call, r.ret, r)
			}
			break
		}
		count(sum, all)
	}
	t.Logf("%d histories, %d given up: %v", checked, unknown, sum)
	if unknown*100 > checked*unknownMax {
		t.Errorf("porcupine gave up on %d of %d histories", unknown, checked)
	}
	// Histories in which nothing happens prove nothing.
	for _, what := range []string{
		"acquire done", "acquire unknown", "try done", "try held", "release done", "release unknown", "check done",
		"close done", "deadline unknown", "ghosts",
	} {
		if sum[what] == 0 && *seeds >= 40 && !t.Failed() {
			t.Errorf("no %q in %d worlds", what, *seeds)
		}
	}
}

func count(sum map[string]int, all []record) {
	for _, r := range all {
		sum[r.verb.String()+" "+r.outcome.String()]++
	}
	for _, name := range names(all) {
		b := builder{all: all, name: name}
		for _, r := range all {
			if r.asks() && r.outcome == held && r.name == name {
				_ = b.refused(r)
			}
		}
		sum["ghosts"] += len(b.ghosts)
	}
}
