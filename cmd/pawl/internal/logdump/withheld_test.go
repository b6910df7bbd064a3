package logdump

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawlproject/pawl/api/recordpb"
)

// TestLogDumpWithholds every field of bytes that nobody said may be shown.
func TestLogDumpWithholds(t *testing.T) {
	e := &recordpb.Event{}
	fields := e.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); fd.Kind() == protoreflect.BytesKind {
			e.ProtoReflect().Set(fd, protoreflect.ValueOfBytes([]byte("SECRET")))
		}
	}
	var shown []string
	for _, f := range fieldsOf(e.ProtoReflect()) {
		if f.value != "withheld" {
			shown = append(shown, f.name)
		}
	}
	if want := []string{"session", "lease", "request_key", "value"}; !slices.Equal(shown, want) {
		t.Errorf("shown are %q, want %q: may the others be?", shown, want)
	}
}
