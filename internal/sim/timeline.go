package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// TimelineEntry of a time line: who did what.
type TimelineEntry struct {
	At   time.Duration
	Who  string
	What string
}

// timeline is what happened, told for people. Nothing is told unless a run is
// repeated for it.
type timeline struct{ entries []TimelineEntry }

func (w *World) note(who, format string, args ...any) {
	if w.timeline != nil {
		w.timeline.entries = append(w.timeline.entries, TimelineEntry{w.now, who, fmt.Sprintf(format, args...)})
	}
}

// timelineMax is how many of the last lines are shown.
const timelineMax = 220

// WriteTimeline writes the time line, a column for each who, so that the eye can follow
// one of them down.
func WriteTimeline(out io.Writer, lines []TimelineEntry) {
	if len(lines) > timelineMax {
		fmt.Fprintf(out, "  … %d earlier lines\n", len(lines)-timelineMax)
		lines = lines[len(lines)-timelineMax:]
	}
	var who []string
	for _, l := range lines {
		if !slices.Contains(who, l.Who) {
			who = append(who, l.Who)
		}
	}
	slices.Sort(who)
	for _, l := range lines {
		i := slices.Index(who, l.Who)
		fmt.Fprintf(out, "%10.4fs %s%-9s%s %s\n", l.At.Seconds(), strings.Repeat(" · ", i), l.Who,
			strings.Repeat(" · ", len(who)-1-i), l.What)
	}
}
