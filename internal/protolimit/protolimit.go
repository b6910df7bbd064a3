package protolimit

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// PartsMax bounds the parts of a server's message: messages inside of it, and texts
// in lists. The largest that a server makes has some thousands.
const PartsMax = 1 << 16

// errParts: a message has more parts than PartsMax.
var errParts = fmt.Errorf("a message of more than %d parts", PartsMax)

// Codec is gRPC's own, for messages that do not have too many parts.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	// A part has two bytes at least.
	if m, ok := v.(proto.Message); ok && data.Len() > 2*PartsMax {
		whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer whole.Free()
		if err := check(whole.ReadOnlyData(), m.ProtoReflect().Descriptor()); err != nil {
			return err
		}
	}
	return c.CodecV2.Unmarshal(data, v)
}

// check counts the parts of a message.
func check(raw []byte, d protoreflect.MessageDescriptor) error {
	parts := 0
	if err := count(raw, d.Fields(), &parts); errors.Is(err, errParts) {
		return err
	}
	return nil // what cannot be read is for the decoder to say
}

func count(raw []byte, fields protoreflect.FieldDescriptors, parts *int) error {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		raw = raw[n:]
		if n = protowire.ConsumeFieldValue(number, kind, raw); n < 0 {
			return protowire.ParseError(n)
		}
		value := raw[:n]
		raw = raw[n:]
		field := fields.ByNumber(number)
		if field == nil || kind != protowire.BytesType {
			continue
		}
		inner := field.Message()
		if inner == nil && !field.IsList() {
			continue
		}
		if *parts++; *parts > PartsMax {
			return errParts
		}
		if inner != nil {
			value, _ = protowire.ConsumeBytes(value)
			if err := count(value, inner.Fields(), parts); err != nil {
				return err
			}
		}
	}
	return nil
}
