package trust

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		ttl   time.Duration
		drift int
		want  time.Duration
	}{
		{10 * time.Second, DriftPPM, 9980019980*time.Nanosecond - Margin},
		{10 * time.Second, 0, 10*time.Second - Margin},
		{24 * time.Hour, DriftPPM, 86227372627372*time.Nanosecond - Margin},
		{time.Second, DriftPPM, 998001998*time.Nanosecond - Margin},
		{Margin, DriftPPM, 0},
		{1, DriftPPM, 0},
		{0, DriftPPM, 0},
		{-time.Second, DriftPPM, 0},
		{time.Second, 1_000_000, 0},
		{time.Second, -1, 0},
	} {
		if got := Span(c.ttl, c.drift); got != c.want {
			t.Errorf("Span(%v, %d) = %v, want %v", c.ttl, c.drift, got, c.want)
		}
	}
}

// The deadline must not lie after the server's earliest expiry, whichever of
// the two clocks is wrong, and in which direction.
func TestSpanEndsBeforeTheServer(t *testing.T) {
	const rho = float64(DriftPPM) / 1e6
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 15 * time.Second, time.Hour, 24 * time.Hour} {
		// In true time the holder's clock may be slow and the server's fast.
		holder := float64(Span(ttl, DriftPPM)) / (1 - rho)
		server := float64(ttl) / (1 + rho)
		if holder >= server {
			t.Errorf("TTL %v: the holder trusts for %v, the server keeps it for %v", ttl,
				time.Duration(holder), time.Duration(server))
		}
	}
}

// Each line is a moment, an action and what must be true afterwards. Moments
// are milliseconds of boot time; a second number is raw time where it differs.
// The TTL is 10 s: the span is 9930.019980 ms, half of it 4965.009990 ms.
func TestWindowScripts(t *testing.T) {
	for name, script := range map[string]string{
		"nothing acknowledged": `
			0     look    lost 0s
			0     send    1
			5     look    lost 0s`,
		"counted from sending": `
			0     send    1
			900   ack 1   moved
			900   look    safe 9.03001998s`,
		"deadline under silence": `
			0     send    1
			1     ack 1   moved
			4965  look    safe 4.96501998s
			4966  look    jeopardy 4.96401998s
			9930  look    jeopardy 19.98µs
			9931  look    lost 0s`,
		"a lost answer is made up by the next": `
			0     send    1
			1     ack 1   moved
			1600  send    2
			3200  send    3
			3201  ack 3   moved
			3201  look    safe 9.92901998s
			3202  ack 2   nothing
			3202  look    safe 9.92801998s`,
		"answers out of order": `
			0     send    1
			1     send    2
			2     ack 2   moved
			3     ack 1   nothing
			3     look    safe 9.92801998s`,
		"a doubled answer": `
			0     send    1
			1     ack 1   moved
			500   ack 1   nothing
			500   look    safe 9.43001998s`,
		"an answer to nothing": `
			0     ack 1   nothing
			0     ack 0   nothing
			0     send    1
			0     ack 2   nothing
			0     look    lost 0s`,
		"a new connection": `
			0     send    1
			1     ack 1   moved
			1600  send    2
			1700  forget
			1800  send    3
			1801  ack 2   nothing
			1802  ack 3   moved
			1802  look    safe 9.92801998s`,
		"suspended: boot time runs on, raw time stands": `
			0        send    1
			1        ack 1   moved
			9931/10  look    lost 0s`,
		"raw time ahead of a slewed clock": `
			0          send    1
			1          ack 1   moved
			9000/9931  look    lost 0s`,
		"a higher TTL counts from the answer on": `
			0     send    1
			1     ack 1   moved
			1000  ask 20s
			1000  look    safe 8.93001998s
			1000  send    2
			1100  ack 2 20s  moved
			1100  look    safe 19.81003996s`,
		"a lower TTL counts from the asking on": `
			0     send    1
			1     ack 1   moved
			1000  send    2
			1100  ask 2s
			1100  look    safe 1.946003996s
			1100  send    3
			1200  ack 2   nothing
			1200  look    safe 1.846003996s
			1300  ack 3 2s  moved
			1300  look    safe 1.746003996s`,
		"a lower TTL below which the deadline lies already": `
			0     send    1
			1     ack 1   moved
			9000  ask 2s
			9000  look    jeopardy 930.01998ms
			9000  send    2
			9100  ack 2 2s  moved
			9100  look    safe 1.846003996s`,
		"a lower TTL drops what is awaited, also where the deadline lies below": `
			0     send    1
			1     ack 1   moved
			8000  send    2
			9000  ask 2s
			9001  ack 2   nothing
			9001  look    jeopardy 929.01998ms`,
		"asking before anything was acknowledged": `
			0     send    1
			1     ask 2s
			2     look    lost 0s
			3     ack 1 2s  moved
			3     look    safe 1.943003996s`,
		"both clocks back: no time gained": `
			5000  send    1
			5001  ack 1   moved
			4000  look    safe 9.93001998s`,
	} {
		t.Run(name, func(t *testing.T) {
			var w Window
			for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
				f := strings.Fields(line)
				got := perform(&w, reading(t, f[0]), f[1:])
				want := strings.Join(f[len(f)-len(strings.Fields(got)):], " ")
				if got != want {
					t.Fatalf("%s: got %q", strings.TrimSpace(line), got)
				}
			}
		})
	}
}

func reading(t *testing.T, s string) clock.Reading {
	boot, raw, two := strings.Cut(s, "/")
	if !two {
		raw = boot
	}
	b, err1 := time.ParseDuration(boot + "ms")
	r, err2 := time.ParseDuration(raw + "ms")
	if err1 != nil || err2 != nil {
		t.Fatalf("moment %q", s)
	}
	return clock.Reading{Boot: b, Raw: r}
}

func perform(w *Window, now clock.Reading, f []string) string {
	switch f[0] {
	case "send":
		return fmt.Sprint(w.Send(now))
	case "ack":
		var n uint64
		fmt.Sscan(f[1], &n)
		ttl := 10 * time.Second
		if len(f) > 2 && f[2] != "moved" && f[2] != "nothing" {
			ttl, _ = time.ParseDuration(f[2])
		}
		if w.Ack(n, ttl) {
			return "moved"
		}
		return "nothing"
	case "ask":
		ttl, _ := time.ParseDuration(f[1])
		w.Ask(now, ttl)
		return ""
	case "forget":
		w.Forget()
		return ""
	default:
		return fmt.Sprintf("%v %v", w.State(now), w.Remaining(now))
	}
}

func TestChangeIsWhereTheStateChanges(t *testing.T) {
	var w Window
	var now clock.Reading
	w.Ack(w.Send(now), 10*time.Second)
	var seen []State
	for range 5 {
		s := w.State(now)
		seen = append(seen, s)
		d := w.Change(now)
		if s == Lost {
			if d != 0 {
				t.Errorf("a change in %v after the loss", d)
			}
			break
		}
		if before := now.Add(d - 1); w.State(before) != s {
			t.Errorf("%v ended before its time", s)
		}
		now = now.Add(d)
	}
	if fmt.Sprint(seen) != "[safe jeopardy lost]" {
		t.Errorf("states %v", seen)
	}
}

// However many renewals are on their way, the oldest is known, and an answer to any of
// them counts from its own sending or from an earlier one's.
func TestManyUnansweredRenewals(t *testing.T) {
	var w Window
	var now clock.Reading
	if _, ok := w.Unanswered(now); ok {
		t.Error("something is awaited in a fresh window")
	}
	const many = 5 * sentMax
	for range many {
		w.Send(now)
		now = now.Add(time.Second)
	}
	if len(w.sent) > sentMax {
		t.Errorf("%d renewals are remembered", len(w.sent))
	}
	if d, ok := w.Unanswered(now); !ok || d != many*time.Second {
		t.Errorf("the oldest has waited %v (%v)", d, ok)
	}
	for n := uint64(1); n <= many; n++ {
		if !w.Ack(n, time.Hour) {
			// One between two that are remembered, of which the earlier has counted.
			continue
		}
		from, _, _ := w.Anchor()
		if sent := (clock.Reading{}).Add(time.Duration(n-1) * time.Second); from.Boot > sent.Boot {
			t.Fatalf("the answer to renewal %d counts from %v, which is after its sending at %v", n, from.Boot, sent.Boot)
		}
		if w.Ack(n, time.Hour) {
			t.Fatalf("the answer to renewal %d counts twice", n)
		}
	}
	if from, _, _ := w.Anchor(); from.Boot < (many-sentMax)*time.Second {
		t.Errorf("after the newest was answered the deadline counts from %v", from.Boot)
	}
	if _, ok := w.Unanswered(now); ok {
		t.Error("something is awaited after the newest was answered")
	}
}

// Answers that come in the order of their renewals, ever so many behind, keep the
// session.
func TestLateAnswersInOrderKeepSession(t *testing.T) {
	var w Window
	var now clock.Reading
	w.Ack(w.Send(now), 3*time.Second)
	for n := uint64(2); n < 10_000; n++ {
		now = now.Add(time.Millisecond)
		w.Send(now)
		if n > 300 {
			w.Ack(n-300, 3*time.Second)
		}
		if w.State(now) == Lost {
			t.Fatalf("lost with renewal %d, and all but the last 300 are answered", n)
		}
	}
}
