package cell

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/locktable"
)

// That the log has lost grants is an alarm, once: what it says stays true of all counts.
func TestRollBackAlarmsOnce(t *testing.T) {
	var log strings.Builder
	l := &loop{cell: New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}), core: &core{}, tenure: &tenure{}}
	for _, rolledBack := range []bool{false, true, true, true} {
		l.deliver(&group{counts: locktable.Counts{RolledBack: rolledBack}})
	}
	if n := strings.Count(log.String(), "store_rolled_back"); n != 1 {
		t.Errorf("%d alarms: %s", n, log.String())
	}
}
