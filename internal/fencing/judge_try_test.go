package fencing

import (
	"testing"
	"time"
	"os"
	"strings"
)

func TestJudgeTry(t *testing.T) {
	begin := time.Now()
	var cells []cell
	for _, s := range strategies() {
		for _, c := range s.cells {
			if strings.HasPrefix(c.strategy+"/"+c.operation, os.Getenv("ONLY")) {
				cells = append(cells, c)
			}
		}
	}
	each(len(cells), func(i int) {
		out, _, err := cells[i].judge()
		t.Logf("%-16s %-10s %-7s %8d %v %s", out.Strategy, out.Operation, out.Verdict, out.States, err, time.Since(begin))
		if os.Getenv("TRACE") != "" {
			for _, l := range out.Lacks {
				t.Log(l.Key, "|", l.Fault)
				for _, s := range l.Trace { t.Log("    ", s) }
			}
		}
	})
}
