package etcdstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap/zapcore"
)

// lastWords is a zap core that lets through only what ends the process, as one
// line that an operator can read.
type lastWords struct {
	out    io.Writer
	fields []zapcore.Field
	// reads is the folder whose member is being read; nil once it serves, and while a
	// fresh one is made.
	reads *atomic.Pointer[string]
}

func newLastWords(out io.Writer) *lastWords {
	return &lastWords{out: out, reads: new(atomic.Pointer[string])}
}

// exitDamaged is the exit code of a process that etcd ends while it reads a folder,
// the one that "pawl serve" has for store.ErrDamaged.
const exitDamaged = 65

func (*lastWords) Enabled(level zapcore.Level) bool { return level >= zapcore.DPanicLevel }

func (w *lastWords) With(fields []zapcore.Field) zapcore.Core {
	return &lastWords{out: w.out, fields: slices.Concat(w.fields, fields), reads: w.reads}
}

func (w *lastWords) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if w.Enabled(e.Level) {
		return checked.AddCore(e, w)
	}
	return checked
}

// Write ends the process where zap would panic, or end it with 1: a goroutine's
// trace would bury the line.
func (w *lastWords) Write(e zapcore.Entry, fields []zapcore.Field) error {
	fields = slices.Concat(w.fields, fields)
	code, advice := 1, "What was acknowledged is on the disk: start it again once the cause is gone"
	if dir := w.reads.Load(); dir != nil && !outside(fields) {
		code, advice = exitDamaged, *dir+" is damaged: "+mendFolder
	}
	if strings.Contains(e.Message, "tocommit(") {
		// The leader knows that this member had acknowledged more.
		code, advice = exitDamaged, "store_rolled_back: the folder is older than what this member had acknowledged. Keep a copy of it, remove etcd in it, and start the server again: it joins as an empty one"
	}
	_, err := io.WriteString(w.out, line(e, fields, advice))
	if e.Level >= zapcore.PanicLevel {
		os.Exit(code)
	}
	return err
}

// outside reports that the cause is not in what the files hold.
func outside(fields []zapcore.Field) bool {
	return slices.ContainsFunc(fields, func(f zapcore.Field) bool {
		err, ok := f.Interface.(error)
		return ok && (errors.Is(err, fs.ErrPermission) || errors.As(err, new(syscall.Errno)))
	})
}

func line(e zapcore.Entry, fields []zapcore.Field, advice string) string {
	var b strings.Builder
	b.WriteString("pawl: the embedded store: " + e.Message)
	for _, f := range fields {
		switch f.Type {
		case zapcore.ErrorType:
			fmt.Fprintf(&b, ": %v", f.Interface)
		case zapcore.StringType:
			fmt.Fprintf(&b, " (%s %s)", f.Key, f.String)
		default: // numbers and structures say nothing to an operator
		}
	}
	if e.Level >= zapcore.PanicLevel {
		b.WriteString("; the server ends. " + advice)
	}
	return b.String() + "\n"
}

func (*lastWords) Sync() error { return nil }
