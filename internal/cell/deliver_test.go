package cell

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/step"
)

// That the log has lost grants is an alarm, once: what it says stays true of all counts.
func TestRollBackAlarmsOnce(t *testing.T) {
	var log strings.Builder
	l := &loop{cell: New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), core: &step.Core{}, tenure: &tenure{}}
	for _, rolledBack := range []bool{false, true, true, true} {
		l.deliver(&step.Group{Counts: locktable.Counts{RolledBack: rolledBack}})
	}
	if n := strings.Count(log.String(), "store_rolled_back"); n != 1 {
		t.Errorf("%d alarms: %s", n, log.String())
	}
}
