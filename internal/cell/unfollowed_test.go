package cell

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/store"
)

// An operator is told once for each reason why a standby does not follow.
func TestWhyAStandbyDoesNotFollowIsToldOnce(t *testing.T) {
	for _, x := range []struct {
		err        error
		level, say string
		rolledBack bool
	}{
		{errors.New("no answer"), "DEBUG", "failed, trying again", false},
		{store.ErrMoved, "WARN", "too slowly", false},
		{store.ErrDamaged, "ERROR", "could not take over", false},
		{fmt.Errorf("%w: %w", store.ErrMoved, store.ErrRolledBack), "ERROR", "store_rolled_back", true},
	} {
		var log bytes.Buffer
		c := New(Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		told := ""
		for range 3 {
			told = c.noteUnfollowed(store.Position{Number: 7}, told, x.err)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 1 || !strings.Contains(lines[0], "level="+x.level) || !strings.Contains(lines[0], x.say) || !strings.Contains(lines[0], "batch=7") {
			t.Errorf("%v: the log says\n%s", x.err, log.String())
		}
		if c.rolledBack.Load() != x.rolledBack {
			t.Errorf("%v: rolled back: %v", x.err, !x.rolledBack)
		}
	}
}
