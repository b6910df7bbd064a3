package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
)

// traceRoom is one and what happens there.
type traceRoom struct{ room, step, what string }

// serverRooms are those of the server, in the order of the request's way. The
// front's are called after it.
var serverRooms = []traceRoom{
	{"link", "receive", "the message is taken apart"},
	{"intake", "queue", "waits for the cell's turn"},
	{"locktable", "decide", "decided; a held name waits here"},
	{"batch", "close", "waits for a place among the batches under way"},
	{"store", "begin", "waits to be sent"},
	{"store", "append", "the store makes it durable"},
	{"cell", "settle", "final when all before it is"},
	{"link", "answer", "gathered into a message"},
}

// streamRooms are the rooms of an acquire over a stream; the wire is told once
// for both ways.
var streamRooms = slices.Concat([]traceRoom{
	{"client", "loop", "the caller asked; the client's loop takes it"},
	{"client", "send", "gathered into a message"},
	{"wire", "network", "both ways, and the systems at its ends"},
}, serverRooms, []traceRoom{{"client", "hand over", "received; the caller has its lease"}})

// callRooms are those of an acquire by a call.
func callRooms(front, protocol string) []traceRoom {
	server := slices.Clone(serverRooms)
	server[0] = traceRoom{front, "receive", "who asks, and may it"}
	server[len(server)-1] = traceRoom{front, "answer", "written down"}
	return slices.Concat([]traceRoom{
		{"client", "ask", "the request is put together"},
		{"wire", "network", "both ways, with " + protocol + " and the systems at its ends"},
	}, server, []traceRoom{{"client", "hand over", "received; the caller has its lease"}})
}

// serverStretches are the times of the rooms of the server. One that it left out
// is empty.
func serverStretches(s *linkpb.Trace) (each []time.Duration) {
	var before int64
	for _, at := range []int64{
		s.GetQueuedNano(), s.GetTakenNano(), s.GetDecidedNano(), s.GetClosedNano(), s.GetAppendingNano(),
		s.GetLandedNano(), s.GetFinalNano(), s.GetSentNano(),
	} {
		at = max(at, before)
		each = append(each, time.Duration(at-before))
		before = at
	}
	return each
}

// lapOf puts a lap together. out are the readings of the client's clock from when it
// was asked until it had sent, server the rooms of the server; came is when the answer
// was there, had when the caller had it.
func lapOf(token guard.Token, out []clock.Reading, server []time.Duration, came, had clock.Reading) lap {
	x := lap{token: token, total: had.Raw - out[0].Raw}
	for i, at := range out[1:] {
		x.each = append(x.each, at.Raw-out[i].Raw)
	}
	wire := came.Raw - out[len(out)-1].Raw
	for _, d := range server {
		wire -= d
	}
	x.each = append(append(x.each, max(wire, 0)), server...)
	x.each = append(x.each, had.Raw-came.Raw)
	return x
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

// traceRow is a row.
type traceRow struct {
	Room string `json:"room"`
	Step string `json:"step"`
	traceTimes
	what string
}

// traceBody is what trace prints as JSON.
type traceBody struct {
	Name  string     `json:"name"`
	Token rest.Token `json:"fencing_token"`
	Times int        `json:"times"`
	Rooms []traceRow `json:"rooms"`
	Total traceTimes `json:"total"`
}

func (t *tracing) body() traceBody {
	b := traceBody{Name: t.name, Token: rest.Token(t.all[len(t.all)-1].token), Times: len(t.all)}
	rows := make([][]time.Duration, len(t.rooms))
	totals := make([]time.Duration, 0, len(t.all))
	for _, x := range t.all {
		for i, d := range x.each {
			rows[i] = append(rows[i], d)
		}
		totals = append(totals, x.total)
	}
	for i, r := range t.rooms {
		b.Rooms = append(b.Rooms, traceRow{r.room, r.step, timesOf(rows[i]), r.what})
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
	rows = append(rows, slices.Concat([]string{"", "total"}, columns(b.Total), []string{"to the caller's lease, token " + guard.Token(b.Token).String() + times}))
	return output.Table(w, rows)
}

// micros shows a time in one unit, so that a column can be read down.
func micros(d rest.Duration) string {
	return fmt.Sprintf("%.1fµs", float64(d)/float64(time.Microsecond))
}
