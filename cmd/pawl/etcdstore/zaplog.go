package etcdstore

import (
	"fmt"
	"io"
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

func newLastWords(out io.Writer) *zap.Logger {
	return zap.New(&lastWords{out: out})
}

func (*lastWords) Enabled(level zapcore.Level) bool { return level >= zapcore.DPanicLevel }

func (w *lastWords) With(fields []zapcore.Field) zapcore.Core {
	return &lastWords{out: w.out, fields: append(append([]zapcore.Field(nil), w.fields...), fields...)}
}

func (w *lastWords) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if w.Enabled(e.Level) {
		return checked.AddCore(e, w)
	}
	return checked
}

func (w *lastWords) Write(e zapcore.Entry, fields []zapcore.Field) error {
	var line strings.Builder
	fmt.Fprintf(&line, "pawl: the embedded store cannot go on: %s", e.Message)
	for _, f := range append(append([]zapcore.Field(nil), w.fields...), fields...) {
		if f.Type == zapcore.ErrorType {
			fmt.Fprintf(&line, ": %v", f.Interface)
		}
	}
	line.WriteString(". What was acknowledged is on the disk; start again once the cause is gone.\n")
	_, err := io.WriteString(w.out, line.String())
	return err
}

func (*lastWords) Sync() error { return nil }
