package fencing

import (
	"bytes"
	"fmt"
	"html"
	"slices"

	"github.com/pawlproject/pawl/internal/fencing/table"
)

// drawn are the counter-examples that have a drawing, by strategy, operation and the
// condition that is left out.
var drawn = []string{
	"nothing overwrite ", "token effect ", "etag-s3 overwrite before", "etag-s3 overwrite nonce", "generation delete tombstone",
	"etag-azure multi ", "cas-claim effect ", "create-gc create ", "manifest-any append ", "token-in-name delete tombstone",
	"lease overwrite change", "lease overwrite infinite", "opener append verify", "proxy overwrite patient", "proxy-two overwrite shared",
	"outbox effect dedupe", "idem-token effect ", "idem-op effect keeps", "wait-out overwrite stop", "wait-out overwrite delay",
	"deadline overwrite short", "revocation overwrite sync", "revocation overwrite drain", "lww append ", "lww delete tombstone",
}

// figure is the file of a counter-example's drawing; "": it has none.
func figure(c table.Cell, l table.Lack) string {
	if !slices.Contains(drawn, c.Strategy+" "+c.Operation+" "+l.Key) {
		return ""
	}
	name := c.Strategy + "-" + c.Operation
	if l.Key != "" {
		name += "-without-" + l.Key
	}
	return name + ".svg"
}

// drawing is a counter-example as a picture: a line for each process and one for the
// store; time goes down; a request is an arrow whose slope is its delay.
type drawing struct {
	cell  table.Cell
	lack  table.Lack
	trace []Event
}

// The measures of a drawing, in pixels.
const (
	laneWide = 84
	rowHigh  = 26
	topHigh  = 64
	charWide = 7
)

// svg draws on a white card, so that it is readable on any page and in print.
func (d drawing) svg() []byte {
	lanes := d.lanes()
	x := func(who string) int { return 50 + laneWide*slices.Index(lanes, who) }
	rows, longest := len(d.lack.Trace), 0
	for _, s := range d.lack.Trace {
		longest = max(longest, len(s)+4)
	}
	textAt := x(lanes[len(lanes)-1]) + 46
	width := max(textAt+longest*charWide, 40+charWide*max(len(d.lack.Fault), len(d.title())))
	height := topHigh + rows*rowHigh + 44
	var b bytes.Buffer
	say := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	say(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="13" role="img">`, width, height, width, height)
	say(`<title>%s</title>`, html.EscapeString(d.title()))
	say(`<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#1f4e8c"/></marker>`)
	say(`<marker id="back" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>`)
	say(`<rect x="0.5" y="0.5" width="%d" height="%d" rx="6" fill="#fff" stroke="#ccc"/>`, width-1, height-1)
	say(`<text x="16" y="22" font-weight="bold" fill="#111">%s</text>`, html.EscapeString(d.title()))
	bottom := topHigh + rows*rowHigh - 4
	for _, who := range lanes {
		say(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#bbb"/>`, x(who), topHigh-12, x(who), bottom)
		say(`<text x="%d" y="%d" text-anchor="middle" font-weight="bold" fill="#111">%s</text>`, x(who), topHigh-18, html.EscapeString(who))
	}
	d.rows(say, x, textAt)
	say(`<text x="%d" y="%d" font-weight="bold" fill="#b00020">✗ %s</text>`, 16, height-16, html.EscapeString(d.lack.Fault))
	say(`</svg>`)
	return b.Bytes()
}

// flight is a request that was sent and has not arrived, or an answer on its way.
type flight struct {
	e   Event
	row int
}

// rows draws what happens, a row each.
func (d drawing) rows(say func(string, ...any), x func(string) int, textAt int) {
	var out []flight
	back := map[string]int{} // the row of the last answer to a process
	y := func(row int) int { return topHigh + row*rowHigh + 8 }
	row := 0
	store := x("store")
	for i, e := range d.trace {
		if e.Kind == Receives {
			if from, ok := back[e.Who]; ok {
				say(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#777" stroke-dasharray="4 3" marker-end="url(#back)"/>`, store, y(from), x(e.Who), y(row)-7)
				delete(back, e.Who)
			}
			continue
		}
		switch e.Kind {
		case Sends:
			out = append(out, flight{e, row})
			say(`<circle cx="%d" cy="%d" r="3.5" fill="#1f4e8c"/>`, x(e.Who), y(row))
		case Admits, Arrives, Loses:
			at := slices.IndexFunc(out, func(f flight) bool { return f.e.Who == e.Who && f.e.sent == e.sent })
			if at >= 0 {
				end := store
				if e.Kind == Loses {
					end = (x(e.Who) + store) / 2
				}
				if out[at].e.Kind == Admits {
					say(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#1f4e8c" stroke-width="5"/>`, store, y(out[at].row), store, y(row))
				} else {
					say(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#1f4e8c" stroke-width="1.5" marker-end="url(#to)"/>`, x(e.Who), y(out[at].row), end, y(row))
				}
				if e.Kind == Admits {
					out[at] = flight{e, row}
				} else if !d.comesAgain(i) {
					out = slices.Delete(out, at, at+1)
				}
			}
			if e.Kind != Loses {
				say(`<circle cx="%d" cy="%d" r="3.5" fill="#1f4e8c"/>`, store, y(row))
				if e.Kind == Arrives {
					back[e.Who] = row
				}
			}
		case Crashes:
			say(`<text x="%d" y="%d" text-anchor="middle" font-weight="bold" fill="#b00020">✗</text>`, x(e.Who), y(row)+5)
		case Notes, Waits:
			say(`<rect x="%d" y="%d" width="8" height="8" fill="#555"/>`, x(e.Who)-4, y(row)-4)
		case Happens:
			say(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#999" stroke-dasharray="1 4"/>`, 20, y(row), textAt-12, y(row))
		}
		if followed(d.trace, i) {
			continue // told with its arrival, in the same row
		}
		say(`<text x="%d" y="%d" fill="#222">%d. %s</text>`, textAt, y(row)+4, row+1, html.EscapeString(e.sentence(d.trace[:i])))
		row++
	}
}

// comesAgain reports whether the request of an event arrives once more later without
// being sent again.
func (d drawing) comesAgain(i int) bool {
	for _, e := range d.trace[i+1:] {
		if e.Who != d.trace[i].Who || e.sent != d.trace[i].sent {
			continue
		}
		return e.Kind != Sends
	}
	return false
}

// lanes are the processes that take part, with the store among them.
func (d drawing) lanes() []string {
	var all []string
	for _, who := range []string{"A", "B", "C", "collector", "relay 1", "relay 2"} {
		if slices.ContainsFunc(d.trace, func(e Event) bool { return e.Who == who }) {
			all = append(all, who)
		}
	}
	return append(all, "store")
}

func (d drawing) title() string {
	s := d.cell.Strategy + ", " + d.cell.Operation
	if d.lack.Key != "" {
		return s + ": what happens when a condition does not hold (" + d.lack.Key + ")"
	}
	return s + ": unsafe"
}
