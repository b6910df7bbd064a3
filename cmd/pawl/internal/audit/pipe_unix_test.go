//go:build unix

package audit

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// A pipe whose reader is gone, or asleep, is as good as a full disk: neither the
// start of a server hangs, nor what needs the log, nor its end.
func TestUnreadPipeBlocksNeitherStartNorClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Path: path, Required: true, Clock: clock.System(), Logger: slog.New(slog.DiscardHandler)}
	if l, err := Open(o); err == nil {
		_ = l.Close()
		t.Error("a pipe without a reader was opened")
	}
	asleep, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer asleep.Close()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	record := func() {
		l.Record(access.AuditRecord{Verb: "break", Outcome: "ended", Reason: strings.Repeat("x", textMax)})
	}
	for range 1024 {
		record()
	}
	testwait.Until(t, time.Minute, "the log fails", func() bool {
		record() // or a short line that still fits into the pipe ends the failure
		return l.Failing() && !l.Writable()
	})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if l.Lost() == 0 {
		t.Error("nothing was lost")
	}
}
