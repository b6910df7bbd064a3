package locktable

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/bounds"
)

// Whatever a log says, the table takes it or says ErrRecord; and what it takes
// it can go on from, and write down again.
func FuzzApply(f *testing.F) {
	one, two := make([]byte, 16), make([]byte, 16)
	one[0], two[0] = 1, 2
	opened := func(id []byte, own bool) *recordpb.Event {
		return &recordpb.Event{Kind: recordpb.Kind_KIND_SESSION_OPENED, Session: id, TtlNano: int64(time.Second), Own: own}
	}
	granted := func(id []byte, token uint64, mode recordpb.Mode, names ...string) *recordpb.Event {
		e := &recordpb.Event{Kind: recordpb.Kind_KIND_GRANTED, Session: id, Token: token, Mode: mode, Request: token, LockDelayNano: 1e9, RequestKey: id}
		for _, n := range names {
			e.Grants = append(e.Grants, &recordpb.Grant{Name: n, Fence: token})
		}
		return e
	}
	tenure := func(epoch, token uint64) *recordpb.Event {
		return &recordpb.Event{Kind: recordpb.Kind_KIND_TENURE, Epoch: epoch, Token: token}
	}
	add := func(events ...*recordpb.Event) {
		raw, err := proto.Marshal(&recordpb.Batch{Events: events})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	ex, sh := recordpb.Mode_MODE_EXCLUSIVE, recordpb.Mode_MODE_SHARED
	add(tenure(1, 5), opened(one, false), granted(one, 6, ex, "a", "b"), &recordpb.Event{Kind: recordpb.Kind_KIND_SESSION_EXPIRED, Session: one}, opened(two, false), granted(two, 7, ex, "a"))
	add(tenure(1, 5), opened(one, true), granted(one, 6, ex, "a"), &recordpb.Event{Kind: recordpb.Kind_KIND_RELEASED, Token: 6, Forced: true})
	add(tenure(1, 5), opened(one, false), granted(one, 6, sh, "a"), &recordpb.Event{Kind: recordpb.Kind_KIND_BREAKING, Token: 6}, tenure(2, 9))
	add(tenure(1, 5), &recordpb.Event{Kind: recordpb.Kind_KIND_NAME_CLOSED, Name: "a", LeftNano: 5}, &recordpb.Event{Kind: recordpb.Kind_KIND_NAME_OPENED, Name: "a"})
	rider := func(id []byte, token uint64, name string) *recordpb.Event {
		e := granted(id, token, ex, name)
		e.Kind, e.Claims, e.RideThroughNano = recordpb.Kind_KIND_GRANTED_RIDER, true, 2e9
		return e
	}
	claimOnly := &recordpb.Event{Kind: recordpb.Kind_KIND_NAME_CLAIM_ONLY, Name: "a", LeftNano: 5}
	over := &recordpb.Event{Kind: recordpb.Kind_KIND_NAME_CLAIM_ONLY_OVER, Name: "a"}
	add(tenure(1, 5), opened(one, false), rider(one, 6, "a"), &recordpb.Event{Kind: recordpb.Kind_KIND_SESSION_EXPIRED, Session: one}, opened(two, false), rider(two, 7, "a"), claimOnly, over)
	add(tenure(1, 5), opened(one, true), rider(one, 6, "a"), &recordpb.Event{Kind: recordpb.Kind_KIND_RELEASED, Token: 6, Forced: true}, claimOnly, opened(two, false), granted(two, 7, ex, "a"))
	add(opened(one, false), &recordpb.Event{Kind: recordpb.Kind_KIND_REQUESTS, Session: one, Finished: 3, Done: []uint64{4, 9}}, &recordpb.Event{Kind: recordpb.Kind_KIND_SESSION_SILENT, Session: one, LeftNano: -1})
	add(tenure(1, 5), opened(one, false), &recordpb.Event{Kind: recordpb.Kind_KIND_SESSION_TTL, Session: one, TtlNano: int64(time.Hour)}, granted(one, 6, ex, "a"), &recordpb.Event{Kind: recordpb.Kind_KIND_SESSION_TTL, Session: one, TtlNano: -1})
	add(&recordpb.Event{Kind: recordpb.Kind_KIND_OUTCOME, RequestKey: one, LeftNano: 9}, &recordpb.Event{Kind: recordpb.Kind_KIND_PAST_TENURE, Epoch: 4, Token: 9, LastToken: 8}, &recordpb.Event{Kind: 99})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var b recordpb.Batch
		if proto.Unmarshal(raw, &b) != nil {
			return
		}
		table := New(bounds.DefaultLimits)
		for _, e := range b.Events {
			if err := table.Apply(e); err != nil {
				if !errors.Is(err, ErrRecord) {
					t.Fatalf("not ErrRecord: %v", err)
				}
				return
			}
		}
		table.FinishReplay()
		now := Now{Low: time.Hour, High: time.Hour, Wall: time.Unix(1_800_000_000, 0)}
		again := New(bounds.DefaultLimits)
		for e := range table.Freeze(now).Events() {
			if err := again.Apply(e); err != nil {
				t.Fatalf("its snapshot does not fit: %v: %v", e, err)
			}
		}
		again.FinishReplay()
		if a, b := table.Counts(), again.Counts(); a != b {
			t.Fatalf("the table counts %+v, its snapshot %+v", a, b)
		}
		var d Decided
		for range 5 {
			table.Tick(now, true, 100, &d)
			table.Work(now, 100, &d)
			now.Low += time.Second
			now.High += time.Second
		}
	})
}
