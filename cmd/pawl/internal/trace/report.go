package trace

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/guard"
)

// times are what several traces say of one room.
type times struct {
	P50 rest.Duration `json:"p50"`
	P99 rest.Duration `json:"p99"`
	Max rest.Duration `json:"max"`
}

func timesOf(all []time.Duration) times {
	slices.Sort(all)
	rank := func(percent int) rest.Duration { return rest.Duration(all[(len(all)*percent+99)/100-1]) }
	return times{rank(50), rank(99), rank(100)}
}

// row is what is printed of one room.
type row struct {
	Room string `json:"room"`
	Step string `json:"step"`
	times
	what string
}

// Body is what trace prints as JSON.
type Body struct {
	Name  string     `json:"name"`
	Token rest.Token `json:"fencing_token"`
	Times int        `json:"times"`
	Rooms []row      `json:"rooms"`
	Total times      `json:"total"`
}

// Body returns the medians, percentiles and maxima of the laps.
func (t *Trace) Body() Body {
	b := Body{Name: t.Name, Token: rest.Token(t.all[len(t.all)-1].token), Times: len(t.all)}
	rows := make([][]time.Duration, len(t.rooms))
	totals := make([]time.Duration, 0, len(t.all))
	for _, x := range t.all {
		for i, d := range x.each {
			rows[i] = append(rows[i], d)
		}
		totals = append(totals, x.total)
	}
	for i, r := range t.rooms {
		b.Rooms = append(b.Rooms, row{r.Room, r.Step, timesOf(rows[i]), r.What})
	}
	b.Total = timesOf(totals)
	return b
}

// Print prints them as a table.
func (t *Trace) Print(w io.Writer) error {
	b := t.Body()
	head, columns := []string{"ROOM", "STEP", "TOOK", "WHAT"}, func(x times) []string { return []string{micros(x.P50)} }
	if b.Times > 1 {
		head = []string{"ROOM", "STEP", "P50", "P99", "MAX", "WHAT"}
		columns = func(x times) []string { return []string{micros(x.P50), micros(x.P99), micros(x.Max)} }
	}
	rows := [][]string{head}
	for _, r := range b.Rooms {
		rows = append(rows, slices.Concat([]string{r.Room, r.Step}, columns(r.times), []string{r.what}))
	}
	times := ""
	if b.Times > 1 {
		times = fmt.Sprintf(", of %d acquires one after the other", b.Times)
	}
	rows = append(rows, slices.Concat([]string{"", "total"}, columns(b.Total), []string{"to the caller's lease, token " + guard.Token(b.Token).String() + times}))
	return output.Table(w, rows)
}

// micros shows a time in one unit, so that a column can be read down.
func micros(d rest.Duration) string {
	return fmt.Sprintf("%.1fµs", float64(d)/float64(time.Microsecond))
}
