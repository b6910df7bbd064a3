package etcdstore

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// lastWords is a zap core that lets through only what ends the process, as one
// line that an operator can read.
type lastWords struct {
	out    io.Writer
	fields []zapcore.Field
}

func newLastWords(out io.Writer) *zap.Logger { return zap.New(&lastWords{out: out}) }

func (*lastWords) Enabled(level zapcore.Level) bool { return level >= zapcore.DPanicLevel }

func (w *lastWords) With(fields []zapcore.Field) zapcore.Core {
	return &lastWords{out: w.out, fields: slices.Concat(w.fields, fields)}
}

func (w *lastWords) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if w.Enabled(e.Level) {
		return checked.AddCore(e, w)
	}
	return checked
}

// Write ends the process where zap would panic: a goroutine's trace would bury
// the line. At FatalLevel zap ends it.
func (w *lastWords) Write(e zapcore.Entry, fields []zapcore.Field) error {
	_, err := io.WriteString(w.out, line(e, slices.Concat(w.fields, fields)))
	if e.Level == zapcore.PanicLevel {
		os.Exit(1)
	}
	return err
}

func line(e zapcore.Entry, fields []zapcore.Field) string {
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
		b.WriteString("; the server ends. What was acknowledged is on the disk: start it again once the cause is gone")
	}
	return b.String() + "\n"
}

func (*lastWords) Sync() error { return nil }
