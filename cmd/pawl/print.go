package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/cmd/pawl/internal/termsafe"
)

// printJSON prints one line with the names of the HTTP interface.
func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err == nil {
		_, err = w.Write(termsafe.JSON(b.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// printTable prints rows in columns, the first of them as a head.
func printTable(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, cell)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// shown makes somebody else's text fit for a terminal and a column: quoted as
// soon as it holds a blank or anything that a terminal would obey.
func shown(s string) string {
	if s == "" {
		return "-"
	}
	for _, r := range s {
		if unicode.IsSpace(r) || r == '"' || r == unicode.ReplacementChar || !unicode.IsGraphic(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

func lockBody(l *linkpb.Lock) rest.LockBody {
	b := rest.LockBody{
		Name: l.GetName(), Slots: l.GetSlots(), SlotsInUse: l.GetInUse(), Value: l.GetValue(), ClosedFor: rest.ClosedFor(time.Duration(l.GetClosedForNano())),
		Holders: []rest.HolderBody{}, Waiters: []rest.WaiterBody{},
	}
	for _, h := range l.GetHolders() {
		b.Holders = append(b.Holders, holderBody(h))
	}
	for _, w := range l.GetWaiters() {
		b.Waiters = append(b.Waiters, rest.WaiterBody{Holder: w.GetHolder(), Label: w.GetLabel(), Shared: w.GetShared(), Identity: w.GetIdentity()})
	}
	return b
}

func holderBody(h *linkpb.Holder) rest.HolderBody {
	return rest.HolderBody{
		Token:     rest.Token(h.GetToken()),
		Holder:    h.GetHolder(),
		Label:     h.GetLabel(),
		Since:     time.Unix(0, h.GetSinceUnixNano()).UTC(),
		ExpiresIn: rest.Duration(max(time.Duration(h.GetExpiresInNano()), 0).Round(time.Millisecond)),
		Shared:    h.GetShared(),
		Slot:      h.GetSlot(),
		Breaking:  h.GetBreaking(),
		Identity:  h.GetIdentity(),
	}
}

// describe says who holds a name, with all that a break needs.
func describe(h rest.HolderBody) string {
	how := "held"
	if h.Shared {
		how = "shared"
	}
	who := shown(h.Label)
	if h.Identity != "" {
		who += ", " + shown(h.Identity)
	}
	text := fmt.Sprintf("%s by %s (%s) with token %d since %s, expires in %v unless renewed",
		how, who, shown(h.Holder), h.Token, h.Since.Format(time.RFC3339), time.Duration(h.ExpiresIn))
	if h.Breaking {
		text += ", asked to let go"
	}
	return text
}
