package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/cmd/pawl/internal/termsafe"
)

// JSON prints one line with the names of the HTTP interface.
func JSON(w io.Writer, v any) error {
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

// Table prints rows in columns, the first of them as a head.
func Table(w io.Writer, rows [][]string) error {
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

// Text makes somebody else's text fit for a terminal and a column: quoted as
// soon as it holds a blank or anything that a terminal would obey.
func Text(s string) string {
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

// Holder says who holds a name, with all that a break needs.
func Holder(h rest.HolderBody) string {
	how := "held"
	if h.Shared {
		how = "shared"
	}
	who := Text(h.Label)
	if h.Identity != "" {
		who += ", " + Text(h.Identity)
	}
	text := fmt.Sprintf("%s by %s (%s) with token %d since %s, expires in %v unless renewed",
		how, who, Text(h.Holder), h.Token, h.Since.Format(time.RFC3339), time.Duration(h.ExpiresIn))
	if h.Breaking {
		text += ", asked to let go"
	}
	return text
}

// Duration is a duration as people read it.
func Duration(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
