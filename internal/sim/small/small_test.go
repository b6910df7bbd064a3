package small

import (
	"strings"
	"testing"
	"time"
)

func TestQuick(t *testing.T) {
	for _, b := range Worlds {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			start := time.Now() //tidy:clock a label
			f := Search(b, 3000)
			t.Logf("small: %s: %d states, %d transitions, depth %d, %v", b.Name, f.States, f.Transitions, f.Depth, time.Since(start))
			if f.Violation != nil {
				var s strings.Builder
				f.Violation.WriteStory(&s)
				t.Error(s.String())
			}
		})
	}
}
