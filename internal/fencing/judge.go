package fencing

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/pawlproject/pawl/internal/fencing/table"
)

// Judge runs every cell of the table: with all its conditions, and once without each. It
// takes about two minutes on two cores. It fails when a cell is safe without one of its
// conditions: such a condition says nothing.
func Judge() (Outcome, error) {
	t := table.Table{Stores: stores}
	drawings := map[string]drawing{}
	var cells []cell
	for _, s := range strategies() {
		t.Strategies = append(t.Strategies, table.Strategy{Key: s.key, Name: s.name, How: s.how})
		cells = append(cells, s.cells...)
	}
	t.Cells = make([]table.Cell, len(cells))
	errs := make([]error, len(cells))
	traces := make([][][]Event, len(cells))
	each(len(cells), func(i int) { t.Cells[i], traces[i], errs[i] = cells[i].judge() })
	if err := errors.Join(errs...); err != nil {
		return Outcome{}, err
	}
	for i := range t.Cells {
		c := &t.Cells[i]
		for k := range c.Lacks {
			if name := figure(*c, c.Lacks[k]); name != "" {
				c.Lacks[k].Figure = name
				drawings[name] = drawing{*c, c.Lacks[k], traces[i][k]}
			}
		}
	}
	return Outcome{t, drawings}, nil
}

// Outcome is what the checker has found: the table, and what is drawn of it.
type Outcome struct {
	Table    table.Table
	drawings map[string]drawing
}

// each does n pieces of work on all cores.
func each(n int, do func(i int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		workers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

// judge finds the verdict on one cell.
func (c cell) judge() (table.Cell, [][]Event, error) {
	out := table.Cell{Strategy: c.strategy, Operation: c.operation, None: c.none}
	if c.none != "" {
		return out, nil, nil
	}
	w := c.build("")
	out.Faults = w.faults()
	f := explore(w)
	out.States = f.states
	if f.broken != none {
		out.Verdict = table.Unsafe
		out.Lacks = []table.Lack{lackOf(f)}
		return out, [][]Event{f.trace}, nil
	}
	var traces [][]Event
	// A world in which nobody gets anything done is safe, and says nothing.
	if all := uint8(1<<clients - 1); f.acked != all && !(w.takesOver && f.acked == all>>1) {
		return out, nil, fmt.Errorf("%s, %s: not every holder can do its work (%03b)", c.strategy, c.operation, f.acked)
	}
	out.Verdict = table.Safe
	for _, k := range c.conditions {
		f := explore(c.build(k.key))
		if f.broken == none {
			return out, nil, fmt.Errorf("%s, %s: safe also where %q does not hold", c.strategy, c.operation, k.text)
		}
		out.Verdict = table.If
		out.States += f.states
		lack := lackOf(f)
		lack.Key, lack.Condition = k.key, k.text
		out.Lacks = append(out.Lacks, lack)
		traces = append(traces, f.trace)
	}
	return out, traces, nil
}

func lackOf(f found) table.Lack {
	return table.Lack{Fault: f.fault, Trace: sentences(f.trace), States: f.states}
}

// faults says in words what may go wrong in a run.
func (w *world) faults() string {
	who := "a client"
	if w.relays {
		who = "a client or relay"
	}
	var of []string
	if w.budget.crashes > 0 {
		of = append(of, "a crash of "+who)
	}
	if w.budget.repeats > 0 {
		of = append(of, "a request that arrives twice")
	}
	if w.budget.losses > 0 {
		of = append(of, "a request or answer that is lost or later than its sender waits")
	}
	text := "nothing"
	switch {
	case len(of) == 1:
		text = "one: " + of[0]
	case w.budget.faults == 1 && len(of) > 1:
		text = "one of: " + strings.Join(of, ", ")
	case len(of) > 1:
		text = "two of: " + strings.Join(of, ", ")
	}
	if w.takesOver {
		text += "; C takes over and does no more"
	}
	return text
}

// sentences tells a trace in plain words, a step each. That an answer arrives is told by
// what it leads to, and a request that reaches the store at once by its answer.
func sentences(trace []Event) []string {
	var out []string
	for i, e := range trace {
		if e.Kind != Receives && !followed(trace, i) {
			out = append(out, e.sentence(trace[:i]))
		}
	}
	return out
}

// sentence tells one event, after those before it.
func (e Event) sentence(before []Event) string {
	who := e.Who
	if who == "collector" {
		who = "the collector"
	}
	switch e.Kind {
	case Sends:
		if again(before, e) {
			return who + " sends it again: " + e.Text + "; it is on its way"
		}
		return who + " sends " + e.article + e.Text + "; it is on its way"
	case Admits, Arrives:
		return fmt.Sprintf("%s's %s%s: %s", who, e.Text, repeated(before, e), e.Says)
	case Loses:
		return fmt.Sprintf("%s's %s is lost on its way", who, e.Text)
	case Happens:
		return e.Text
	default:
		return who + " " + e.Text
	}
}

// repeated says that a request was sent once more right before it arrives.
func repeated(before []Event, e Event) string {
	for i := len(before) - 1; i >= 0; i-- {
		b := before[i]
		if b.Kind == Receives {
			continue
		}
		if b.Kind == Sends && b.Who == e.Who && b.sent == e.sent && again(before[:i], b) {
			return ", sent again"
		}
		break
	}
	return ""
}

// again reports whether the sender's request before was the same.
func again(before []Event, e Event) bool {
	for i := len(before) - 1; i >= 0; i-- {
		if before[i].Kind == Sends && before[i].Who == e.Who {
			return before[i].sent == e.sent
		}
	}
	return false
}
