package kvlog

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

// members knows one member that is gone.
type members struct{ gone uint64 }

func (m members) Own() uint64             { return 1 }
func (m members) Gone(member uint64) bool { return member == m.gone }

// A standby claims early when the active server's member is gone and no sign of life of
// that server was seen for as long as it gives one; else it waits for the whole time.
func TestHaste(t *testing.T) {
	const ttl = 3 * time.Second
	for _, c := range []struct {
		what   string
		gone   uint64
		member uint64
		ttl    time.Duration
		// beats: a sign of life lands between two looks.
		beats  bool
		expect time.Duration // 0: never
	}{
		{"its member is gone", 7, 7, ttl, false, ttl / 10},
		{"another one is gone", 6, 7, ttl, false, ttl},
		{"its server names no member", 0, 0, ttl, false, ttl},
		{"it has another time to wait", 7, 7, 2 * ttl, false, 2 * ttl},
		{"its member is gone, and it works", 7, 7, ttl, true, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(nil, Options{Clock: clock.Bubble(), ActiveTTL: ttl, Members: members{c.gone}, Logger: slog.New(slog.DiscardHandler)})
				look := claimant{Store: s, self: store.Node{ID: [16]byte{2}}}
				id := [16]byte{1}
				now := situation{tenure: Pair{Rev: 10, Value: []byte("its")}, beat: Pair{Rev: 11}, value: tenureValue{Epoch: 1, Node: id[:], ActiveTTL: span(c.ttl), Member: c.member}}
				begun := time.Now()
				for !look.turn(now) && time.Since(begun) < 3*ttl {
					time.Sleep(look.pace())
					if c.beats {
						now.beat.Rev++
					}
				}
				took := time.Since(begun)
				if c.expect == 0 {
					c.expect = 3 * ttl
				}
				if took < c.expect || took > c.expect+paceMax {
					t.Errorf("claimed after %v, expected %v", took, c.expect)
				}
			})
		})
	}
}
