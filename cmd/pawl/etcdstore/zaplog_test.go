package etcdstore

import (
	"bytes"
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestLastWords(t *testing.T) {
	var out bytes.Buffer
	lg := newLastWords(&out).With(zap.String("path", "wal/1"), zap.Int("n", 3))
	lg.Info("chatter")
	lg.Error("more of it")
	if out.Len() > 0 {
		t.Errorf("says %q", out.String())
	}
	lg.DPanic("odd", zap.Error(errors.New("no space left on device")))
	if got, want := out.String(), "pawl: the embedded store: odd (path wal/1): no space left on device\n"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
	got := line(zapcore.Entry{Level: zapcore.FatalLevel, Message: "failed to save"}, nil)
	want := "pawl: the embedded store: failed to save; the server ends. What was acknowledged is on the disk: start it again once the cause is gone\n"
	if got != want {
		t.Errorf("says %q, want %q", got, want)
	}
}
