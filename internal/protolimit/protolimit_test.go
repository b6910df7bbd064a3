package protolimit

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
)

func decode(raw []byte, m proto.Message) error {
	return Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m)
}

// Eight MiB of parts of two bytes each are refused, at the top and further down,
// before room is made for them.
func TestManyTinyPartsAreRefused(t *testing.T) {
	const size = 8 << 20
	tiny := func(tag byte) []byte { return bytes.Repeat([]byte{tag, 0}, size/2) }
	// around makes the bytes those of field 1.
	around := func(raw []byte) []byte {
		n := len(raw)
		return append([]byte{0x0a, byte(n) | 0x80, byte(n>>7) | 0x80, byte(n>>14) | 0x80, byte(n >> 21)}, raw...)
	}
	for what, tc := range map[string]struct {
		raw []byte
		of  proto.Message
	}{
		"replies":           {tiny(3<<3 | 2), &linkpb.ServerMessage{}},
		"notices":           {tiny(4<<3 | 2), &linkpb.ServerMessage{}},
		"observed":          {tiny(6<<3 | 2), &linkpb.ServerMessage{}},
		"features":          {around(tiny(2<<3 | 2)), &linkpb.ServerMessage{}},
		"locks":             {tiny(1<<3 | 2), &linkpb.ListResponse{}},
		"holders of a lock": {around(tiny(2<<3 | 2)), &linkpb.ListResponse{}},
		"a wrong end":       {append(tiny(1<<3|2), 0xff), &linkpb.ListResponse{}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := decode(tc.raw, tc.of)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errParts) || took > 1<<20 {
			t.Errorf("%s: %v, %d bytes were allocated", what, err, took)
		}
	}
}

// A page as large as one can be, and the largest number of parts, are decoded.
func TestLargeMessagesAreDecoded(t *testing.T) {
	page, many := &linkpb.ListResponse{}, &linkpb.ListResponse{}
	for range 1000 {
		page.Locks = append(page.Locks, &linkpb.Lock{
			Name: "x", Value: make([]byte, 65536), Holders: []*linkpb.Holder{{Label: "a"}, {}}, Waiters: []*linkpb.Waiter{{}},
		})
	}
	for range PartsMax {
		many.Locks = append(many.Locks, &linkpb.Lock{Name: "x"})
	}
	for _, m := range []*linkpb.ListResponse{page, many} {
		sent, err := Codec().Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var got linkpb.ListResponse
		if err := Codec().Unmarshal(sent, &got); err != nil || !proto.Equal(m, &got) {
			t.Errorf("%d locks: %v", len(m.Locks), err)
		}
	}
}

// Whatever comes, counting agrees with what is decoded.
func FuzzCheck(f *testing.F) {
	raw, err := proto.Marshal(&linkpb.ServerMessage{
		Welcome: &linkpb.Welcome{Cell: "c", Features: []string{"a"}, Lost: []uint64{1, 2}},
		Replies: []*linkpb.Reply{{Number: 1, What: &linkpb.Reply_Granted{Granted: &linkpb.Granted{Fences: []*linkpb.Fence{{Name: "x"}}}}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{0x0a, 0, 0x0a, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m linkpb.ServerMessage
		parts := 0
		counted := count(raw, m.ProtoReflect().Descriptor().Fields(), &parts)
		if decoded := proto.Unmarshal(raw, &m); decoded == nil && counted != nil {
			t.Errorf("it is decoded, and counting says %v", counted)
		}
		if n := len(m.Replies) + len(m.Notices) + len(m.Observed) + len(m.GetWelcome().GetFeatures()); n > parts {
			t.Errorf("%d parts are counted, and there are %d", parts, n)
		}
	})
}
