package logdump

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/internal/store"
)

// A batch of a megabyte of empty events is shown in memory that is a few times its
// size, and events that do not read are damage even where the checksum fits.
func TestHostileRecordsAreShown(t *testing.T) {
	head, err := proto.Marshal(&recordpb.Batch{Epoch: 1, Number: 1, Nonce: make([]byte, 16)})
	if err != nil {
		t.Fatal(err)
	}
	found := func(events string) *etcdstore.Found {
		body := append(bytes.Clone(head), events...)
		sum := sha256.Sum256(body)
		raw, err := proto.Marshal(&recordpb.Sealed{Format: store.Format, Sum: sum[:], Body: body})
		if err != nil {
			t.Fatal(err)
		}
		f := &etcdstore.Found{Kind: Batch, Number: 1}
		f.Value = raw
		return f
	}
	const event = "\x32" // the tag of a batch's events
	var before, after runtime.MemStats
	f := found(strings.Repeat(event+"\x00", store.BatchMax/2))
	runtime.ReadMemStats(&before)
	r := recordOf(f)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; f.Damage != nil || len(r.events) != store.BatchMax/2 || took > 100*store.BatchMax {
		t.Errorf("%d events, %d bytes were allocated: %v", len(r.events), took, f.Damage)
	}
	for what, events := range map[string]string{
		"an event that is none":   event + "\x01\xff",
		"a length beyond the end": event + "\xff\xff\xff\xff\x07",
		"the largest length":      event + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"an event behind another": event + "\x00" + event + "\x01\xff",
	} {
		f := found(events)
		var out bytes.Buffer
		if err := Print(&out, f, true); err != nil || !errors.Is(f.Damage, store.ErrDamaged) && !strings.Contains(out.String(), `"bytes"`) {
			t.Errorf("%s: %v, %v: %s", what, err, f.Damage, &out)
		}
		if strings.HasPrefix(what, "an event") && (!errors.Is(f.Damage, store.ErrDamaged) || !strings.Contains(out.String(), "not an event")) {
			t.Errorf("%s: %v: %s", what, f.Damage, &out)
		}
	}
}

// Whatever a record holds, it is printed, and what does not read is damage or is shown by
// its size.
func FuzzPrintFound(f *testing.F) {
	raw, _, err := store.SealBatch(&recordpb.Batch{Epoch: 1, Number: 1, Nonce: make([]byte, 16), Events: []*recordpb.Event{
		{Kind: recordpb.Kind_KIND_GRANTED, Token: 7, Label: "a\x1b", Value: []byte("v"), Grants: []*recordpb.Grant{{Name: "n"}}, Done: []uint64{1}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, byte(0), false)
	f.Add([]byte(`{"epoch":1e308,"node":null,"a":[[]]}`), byte(2), true)
	f.Fuzz(func(t *testing.T, raw []byte, kind byte, asJSON bool) {
		for _, sealed := range []bool{false, true} {
			if sealed { // so that what is fuzzed is not the checksum
				sum := sha256.Sum256(raw)
				var err error
				if raw, err = proto.Marshal(&recordpb.Sealed{Format: store.Format, Sum: sum[:], Body: raw}); err != nil {
					t.Fatal(err)
				}
			}
			found := &etcdstore.Found{}
			switch kind % 4 {
			case 0:
				found.Kind = Batch
			case 1:
				found.Kind = Chunk
			case 2:
				found.Kind = Tenure
			case 3:
				found.Kind = Pointer
			}
			found.Key, found.Value = "k", raw
			var out bytes.Buffer
			if err := Print(&out, found, asJSON); err != nil {
				t.Fatal(err)
			}
			if asJSON && !json.Valid(out.Bytes()) {
				t.Errorf("no JSON: %q", out.Bytes())
			}
			if bytes.ContainsAny(out.Bytes(), "\x1b\x00\x07") {
				t.Errorf("a terminal would obey: %q", out.Bytes())
			}
		}
	})
}
