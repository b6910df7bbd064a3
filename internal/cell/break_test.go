package cell_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A holder without a stream hears of a break with its next renewal, and the log
// says who was asked by whom and why, and nothing that gives power.
func TestBreakIsReportedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := clock.Bubble()
		st := memstore.NewDisk().Store(memstore.Options{Clock: k, ActiveTTL: activeTTL, Sole: true})
		var log bytes.Buffer
		s := &server{store: st, end: make(chan error, 1)}
		s.Cell = cell.New(cell.Options{
			Store: st, Node: store.Node{Link: "a", ID: [16]byte{1}}, Clock: k, Name: "test", ActiveTTL: activeTTL,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { s.end <- s.Run(ctx) }()
		s.up(t)

		l := s.acquire(t, "orders/7", 0, 0)
		if r, err := s.RenewLease(t.Context(), l.ID, 0); err != nil || r.Breaking || r.Reason != "" || r.Session != l.Session {
			t.Errorf("before the break a renewal answers %+v, %v", r, err)
		}
		b := locktable.Break{Name: "orders/7", Token: l.Granted.Token, Reason: "host is retired"}
		ops := cell.As(t.Context(), "ops")
		if broken, err := s.Break(ops, b); broken.Ended || err != nil {
			t.Fatalf("break: %+v, %v", broken, err)
		}
		if r, err := s.RenewLease(t.Context(), l.ID, 0); err != nil || !r.Breaking || r.Reason != b.Reason || r.Session != l.Session {
			t.Errorf("while breaking a renewal answers %+v, %v", r, err)
		}
		b.Token = guard.Token(1)
		if _, err := s.Break(ops, b); reasonOf(err) != locktable.TokenMismatch {
			t.Errorf("a break of another token: %v", err)
		}
		p, err := s.List(t.Context(), locktable.List{Name: "orders/7"})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-s.end; err != nil {
			t.Error(err)
		}
		var lines []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "msg=break") {
				lines = append(lines, line)
			}
		}
		expected := fmt.Sprintf(`level=INFO msg=break name=orders/7 token=%d ended=false reason="host is retired" identity=ops holder=%s`,
			l.Granted.Token, p.Locks[0].Holders[0].Handle)
		if len(lines) != 1 || !strings.Contains(lines[0], expected) {
			t.Errorf("the log says %q, expected once %s", lines, expected)
		}
		for _, secret := range []string{l.ID, l.Session} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log shows a capability:\n%s", log.String())
			}
		}
	})
}
