package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/rest"
	"github.com/pawlproject/pawl/internal/hook"
)

// traceRooms are the rooms of an acquire and what happens there, in their order
// but for the wire, which is told once for both ways.
var traceRooms = []struct{ room, step, what string }{
	{"client", "loop", "the caller asked; the client's loop takes it"},
	{"client", "send", "gathered into a message"},
	{"wire", "network", "both ways, and the systems at its ends"},
	{"link", "receive", "the message is taken apart"},
	{"intake", "queue", "waits for the cell's turn"},
	{"locktable", "decide", "decided; a held name waits here"},
	{"batch", "close", "waits for a place among the batches under way"},
	{"store", "begin", "waits to be sent"},
	{"store", "append", "the store makes it durable"},
	{"cell", "settle", "final when all before it is"},
	{"link", "answer", "gathered into a message"},
	{"client", "hand over", "received; the caller has its lease"},
}

// stretches are the times of one trace, a number for each of the rooms, and the
// total. A time that the server left out makes its stretch empty.
func stretches(t hook.Trace) (each []time.Duration, total time.Duration) {
	s := t.Server
	stations := []int64{
		s.GetQueuedNano(), s.GetTakenNano(), s.GetDecidedNano(), s.GetClosedNano(), s.GetAppendingNano(),
		s.GetLandedNano(), s.GetFinalNano(), s.GetSentNano(),
	}
	each = []time.Duration{t.Taken.Raw - t.Asked.Raw, t.Sent.Raw - t.Taken.Raw}
	away := t.Received.Raw - t.Sent.Raw
	each = append(each, max(away-time.Duration(slices.Max(stations)), 0))
	var before int64
	for _, at := range stations {
		at = max(at, before)
		each = append(each, time.Duration(at-before))
		before = at
	}
	each = append(each, t.Handed.Raw-t.Received.Raw)
	return each, t.Handed.Raw - t.Asked.Raw
}

// traceTimes are what several traces say of one room.
type traceTimes struct {
	P50 rest.Duration `json:"p50"`
	P99 rest.Duration `json:"p99"`
	Max rest.Duration `json:"max"`
}

func timesOf(all []time.Duration) traceTimes {
	slices.Sort(all)
	rank := func(percent int) rest.Duration { return rest.Duration(all[(len(all)*percent+99)/100-1]) }
	return traceTimes{rank(50), rank(99), rank(100)}
}

// traceRoom is a row.
type traceRoom struct {
	Room string `json:"room"`
	Step string `json:"step"`
	traceTimes
	what string
}

// traceBody is what trace prints as JSON.
type traceBody struct {
	Name  string      `json:"name"`
	Token rest.Token  `json:"fencing_token"`
	Times int         `json:"times"`
	Rooms []traceRoom `json:"rooms"`
	Total traceTimes  `json:"total"`
}

func (t *tracing) body() traceBody {
	b := traceBody{Name: t.name, Token: rest.Token(t.token), Times: len(t.all)}
	rows := make([][]time.Duration, len(traceRooms))
	totals := make([]time.Duration, 0, len(t.all))
	for _, x := range t.all {
		each, total := stretches(x)
		for i, d := range each {
			rows[i] = append(rows[i], d)
		}
		totals = append(totals, total)
	}
	for i, r := range traceRooms {
		b.Rooms = append(b.Rooms, traceRoom{r.room, r.step, timesOf(rows[i]), r.what})
	}
	b.Total = timesOf(totals)
	return b
}

func (t *tracing) print(w io.Writer) error {
	b := t.body()
	head, columns := []string{"ROOM", "STEP", "TOOK", "WHAT"}, func(x traceTimes) []string { return []string{micros(x.P50)} }
	if b.Times > 1 {
		head = []string{"ROOM", "STEP", "P50", "P99", "MAX", "WHAT"}
		columns = func(x traceTimes) []string { return []string{micros(x.P50), micros(x.P99), micros(x.Max)} }
	}
	rows := [][]string{head}
	for _, r := range b.Rooms {
		rows = append(rows, slices.Concat([]string{r.Room, r.Step}, columns(r.traceTimes), []string{r.what}))
	}
	times := ""
	if b.Times > 1 {
		times = fmt.Sprintf(", of %d acquires one after the other", b.Times)
	}
	rows = append(rows, slices.Concat([]string{"", "total"}, columns(b.Total), []string{"to the caller's lease, token " + t.token.String() + times}))
	return printTable(w, rows)
}

// micros shows a time in one unit, so that a column can be read down.
func micros(d rest.Duration) string {
	return fmt.Sprintf("%.1fµs", float64(d)/float64(time.Microsecond))
}
