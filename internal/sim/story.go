package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Line of a time line: who did what.
type Line struct {
	At   time.Duration
	Who  string
	What string
}

// story is what happened, told for people. Nothing is told unless a run is
// repeated for it.
type story struct{ lines []Line }

func (w *World) tell(who, format string, args ...any) {
	if w.story != nil {
		w.story.lines = append(w.story.lines, Line{w.now, who, fmt.Sprintf(format, args...)})
	}
}

// storyMax is how many of the last lines are shown.
const storyMax = 220

// WriteStory writes the time line, a column for each who, so that the eye can follow
// one of them down.
func WriteStory(out io.Writer, lines []Line) {
	if len(lines) > storyMax {
		fmt.Fprintf(out, "  … %d earlier lines\n", len(lines)-storyMax)
		lines = lines[len(lines)-storyMax:]
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
