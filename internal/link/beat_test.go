package link

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

// All sessions with a long TTL are told the same beats, whenever they ask.
func TestBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		start := time.Now()
		phases := map[time.Duration]bool{}
		for i, ttl := range []time.Duration{10 * time.Second, 15 * time.Second, 24 * time.Hour} {
			h := hello()
			h.TtlNano = int64(ttl)
			st := attach(t, c, &linkpb.ClientMessage{Hello: h})
			recv(t, st)
			for n := range 3 {
				time.Sleep(time.Duration(17+13*i+29*n) * time.Millisecond)
				if err := st.Send(&linkpb.ClientMessage{Renewal: uint64(n + 1)}); err != nil {
					t.Fatal(err)
				}
				next := time.Duration(recv(t, st).BeatNano)
				if next <= 0 || next > linkpb.BeatGap {
					t.Fatalf("TTL %v: the next beat is in %v", ttl, next)
				}
				phases[(time.Since(start)+next)%linkpb.BeatGap] = true
			}
		}
		if len(phases) != 1 {
			t.Errorf("beats at %v", phases)
		}
	})
}

func TestShortTTLsKeepNoBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hello()
		h.TtlNano = int64(9999 * time.Millisecond)
		st := attach(t, serve(t, false), &linkpb.ClientMessage{Hello: h})
		recv(t, st)
		if err := st.Send(&linkpb.ClientMessage{Renewal: 1}); err != nil {
			t.Fatal(err)
		}
		if m := recv(t, st); m.Renewal != 1 || m.BeatNano != 0 {
			t.Errorf("%v", m)
		}
	})
}
