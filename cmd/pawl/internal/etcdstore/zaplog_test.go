package etcdstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestLastWords(t *testing.T) {
	var out bytes.Buffer
	lg := zap.New(newLastWords(&out)).With(zap.String("path", "wal/1"), zap.Int("n", 3))
	lg.Info("chatter")
	lg.Error("more of it")
	if out.Len() > 0 {
		t.Errorf("says %q", out.String())
	}
	lg.DPanic("odd", zap.Error(errors.New("no space left on device")))
	if got, want := out.String(), "pawl: the embedded store: odd (path wal/1): no space left on device\n"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
	got := line(zapcore.Entry{Level: zapcore.FatalLevel, Message: "failed to save"}, nil, "Do this")
	want := "pawl: the embedded store: failed to save; the server ends. Do this\n"
	if got != want {
		t.Errorf("says %q, want %q", got, want)
	}
}

// What a member cannot read is damage, unless the system refuses the file or has no
// room.
func TestLastWordsOfDamage(t *testing.T) {
	for _, tc := range []struct {
		err     error
		outside bool
	}{
		{errors.New("wal: crc mismatch"), false},
		{io.ErrUnexpectedEOF, false},
		{&fs.PathError{Op: "open", Path: "wal", Err: syscall.EACCES}, true},
		{fmt.Errorf("write: %w", syscall.ENOSPC), true},
	} {
		if got := outside([]zapcore.Field{zap.String("path", "x"), zap.Error(tc.err)}); got != tc.outside {
			t.Errorf("%v has its cause outside of the files: %t", tc.err, got)
		}
	}
}
