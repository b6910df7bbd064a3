package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// logged is a server with a log.
func logged(t *testing.T, text string) *pawlServer {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "n1.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return &pawlServer{process: &process{log: f}}
}

func TestTakeOversInLogs(t *testing.T) {
	first := logged(t, `time=2026-01-02T03:04:05.500Z level=INFO msg=serving cell=a epoch=1
time=2026-01-02T03:04:07.000Z level=INFO msg=stopping cause="stopped by SIGTERM"
`)
	second := logged(t, `time=2026-01-02T03:04:07.100Z level=INFO msg="going on from where the standby had read the log to" batch=7
time=2026-01-02T03:04:07.250Z level=INFO msg=serving cell=a epoch=2
`)
	all := []*pawlServer{first, second}
	end := time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC)
	at, err := servedSince(all, end)
	if err != nil || at.Sub(end) != 250*time.Millisecond {
		t.Errorf("served since %v, %v", at, err)
	}
	if at, err := servedSince(all, at); err == nil {
		t.Errorf("a server served at %v, after the last one did", at)
	}
	if n, err := wentOn(all); n != 1 || err != nil {
		t.Errorf("%d went on, %v", n, err)
	}
}
