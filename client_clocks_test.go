package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
	"github.com/pawlproject/pawl/pawltest"
)

// askew is a machine's clocks that say something else than the bubble's.
type askew struct {
	clock.Clock
	mu         sync.Mutex
	boot, wall time.Duration
	alarms     []*alarm
}

func (k *askew) Now() clock.Reading {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.Clock.Now()
	r.Boot += k.boot
	return r
}

func (k *askew) Wall() time.Time { return k.Clock.Wall().Add(k.wall) }

func (k *askew) NewAlarm() clock.Timer {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := &alarm{Timer: k.Clock.NewAlarm(), of: k}
	k.alarms = append(k.alarms, a)
	return a
}

// suspend has the machine asleep for d: boot time has run on when it wakes up, raw
// time and ordinary timers stood still, and what was due meanwhile is due now.
func (k *askew) suspend(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.boot += d
	now := k.Clock.Now().Boot + k.boot
	for _, a := range k.alarms {
		if a.armed {
			a.Timer.Reset(a.at - now)
		}
	}
}

// alarm is a timer that counts suspend.
type alarm struct {
	clock.Timer
	of    *askew
	armed bool
	at    time.Duration
}

func (a *alarm) Reset(d time.Duration) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.armed, a.at = true, a.of.Clock.Now().Boot+a.of.boot+d
	a.Timer.Reset(d)
}

// dialBy is a client with clocks of its own.
func dialBy(t *testing.T, p *pawltest.Path, k *askew, o pawl.Options) *pawl.Client {
	t.Helper()
	ctx := p.Context(context.Background())
	parts := hook.From(ctx)
	k.Clock, parts.Clock = parts.Clock, k
	c, err := pawl.Dial(hook.With(ctx, parts), p.Servers(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// C35: the machine sleeps for ten TTLs. The lease is over before any work goes on under
// it, by the first reading of the clock, and by an alarm that counts the sleep. A sleep
// that the lease outlasts costs nothing.
func TestLeaseLostAfterSuspend(t *testing.T) {
	for _, ttl := range []time.Duration{ttl, time.Hour} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pawltest.New(t)
				k := &askew{}
				c := dialBy(t, s.Path, k, pawl.Options{TTL: ttl})
				l := take(t, c, "x")
				k.suspend(ttl / 4)
				synctest.Wait()
				if err := l.Check(t.Context()); err != nil || l.Context().Err() != nil {
					t.Fatalf("after a short sleep: %v", err)
				}

				woken := time.Now()
				k.suspend(10 * ttl)
				if left := l.Remaining(); left != 0 {
					t.Errorf("%v remain after it", left)
				}
				<-l.Context().Done()
				if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrLost) {
					t.Errorf("cause %v", cause)
				}
				if late := time.Since(woken); late > 10*time.Millisecond {
					t.Errorf("it was told %v after it woke up", late)
				}
				if err := l.Check(t.Context()); !errors.Is(err, pawl.ErrLost) {
					t.Errorf("check: %v", err)
				}
				// The server has not counted so far; the name is given back all the same.
				if next := take(t, c, "x"); next.Token() <= l.Token() {
					t.Errorf("token %d after %d", next.Token(), l.Token())
				}
			})
		})
	}
}

// C34, C23: the wall clocks of clients differ by minutes to years, and their other
// clocks start at different values. Grants, and their times and ends, are the same as
// with correct clocks.
func TestClientClocksDoNotMoveExpiry(t *testing.T) {
	story := func(t *testing.T, a, b *askew) (told string) {
		synctest.Test(t, func(t *testing.T) {
			s := pawltest.New(t)
			path := s.NewPath()
			first, second := dialBy(t, path, a, pawl.Options{TTL: ttl}), dialBy(t, s.Path, b, pawl.Options{TTL: ttl})
			begun := time.Now()
			tell := func(what string, l *pawl.Lease) {
				told += fmt.Sprintf("%s after %v, %v remain\n", what, time.Since(begun), l.Remaining())
				if left := l.Remaining(); left < 0 || left > ttl {
					t.Errorf("%s: %v remain of %v", what, left, ttl)
				}
			}
			l := take(t, first, "x")
			tell("first", l)
			got := later(t, second, "x")
			synctest.Wait()
			let(t, l)
			next := <-got
			tell("second", next)
			got = later(t, first, "x")
			synctest.Wait()
			let(t, next)
			l = <-got
			got = later(t, second, "x")
			synctest.Wait()
			cut := time.Now()
			path.Cut()
			<-l.Context().Done()
			tell("lost", l)
			next = <-got
			// Renewals are a little apart from each other, so this time is not always the same.
			told += fmt.Sprintf("taken over, between a TTL and a second more: %v\n", time.Since(cut).Truncate(ttl) == ttl && time.Since(cut) < ttl+time.Second)
			if next.Token() <= l.Token() {
				t.Errorf("token %d after %d", next.Token(), l.Token())
			}
		})
		return told
	}
	right := story(t, &askew{}, &askew{})
	if strings.Count(right, "\n") != 4 {
		t.Fatalf("the story is\n%s", right)
	}
	const minutes, year = 10 * time.Minute, 365 * 24 * time.Hour
	for _, k := range [][2]time.Duration{{minutes, -minutes}, {-minutes, minutes}, {30 * year, 0}, {0, -30 * year}} {
		a, b := &askew{wall: k[0], boot: max(k[0], 0)}, &askew{wall: k[1], boot: max(k[1], 0)}
		if wrong := story(t, a, b); wrong != right {
			t.Errorf("wall clocks by %v:\n%s\nwith clocks that are right:\n%s", k, wrong, right)
		}
	}
}

// C34: what a client sends has no field for a time of day. Durations are the only
// times in it, and their names say so.
func TestMessagesCarryNoClientTime(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var durations int
	var look func(protoreflect.MessageDescriptor)
	look = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			name := string(f.Name())
			if f.Message() != nil {
				look(f.Message())
			}
			if f.Kind() == protoreflect.BoolKind {
				continue
			}
			if strings.HasSuffix(name, "_nano") {
				durations++
				for _, d := range []string{"ttl", "wait", "delay", "ride_through", "riding", "for_nano"} {
					if strings.Contains(name, d) {
						name = ""
					}
				}
			}
			for _, word := range []string{"nano", "time", "unix", "now", "clock", "since", "until", "deadline", "expire"} {
				if strings.Contains(name, word) {
					t.Errorf("%s looks like a time of the client", f.FullName())
				}
			}
			if f.Message() != nil && strings.HasPrefix(string(f.Message().FullName()), "google.protobuf.") {
				t.Errorf("%s is a %s", f.FullName(), f.Message().FullName())
			}
		}
	}
	service := linkpb.File_linkpb_link_proto.Services().ByName("Link")
	for i := range service.Methods().Len() {
		look(service.Methods().Get(i).Input())
	}
	if len(seen) < 10 || durations < 4 {
		t.Errorf("%d messages with %d durations were looked at", len(seen), durations)
	}
}

// hoard is a client's connection whose requests arrive late: it takes them and
// passes them on when it is told to.
type hoard struct {
	net.Conn
	at *depot
}

type depot struct {
	mu    sync.Mutex
	on    bool
	kept  []func()
	inner func(context.Context, string) (net.Conn, error)
}

func (d *depot) dial(ctx context.Context, server string) (net.Conn, error) {
	d.mu.Lock()
	on := d.on
	d.mu.Unlock()
	if on {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	c, err := d.inner(ctx, server)
	if err != nil {
		return nil, err
	}
	return hoard{c, d}, nil
}

func (d *depot) keep(on bool) {
	d.mu.Lock()
	kept := d.kept
	d.on = on
	if !on {
		d.kept = nil
	}
	d.mu.Unlock()
	if !on {
		for _, deliver := range kept {
			deliver()
		}
	}
}

func (h hoard) Write(b []byte) (int, error) {
	h.at.mu.Lock()
	defer h.at.mu.Unlock()
	if !h.at.on {
		return h.Conn.Write(b)
	}
	sent := append([]byte{}, b...)
	h.at.kept = append(h.at.kept, func() { _, _ = h.Conn.Write(sent) })
	return len(b), nil
}

// Close is late as well.
func (h hoard) Close() error {
	h.at.mu.Lock()
	defer h.at.mu.Unlock()
	if !h.at.on {
		return h.Conn.Close()
	}
	h.at.kept = append(h.at.kept, func() { _ = h.Conn.Close() })
	return h.Conn.SetReadDeadline(time.Unix(1, 0))
}

// C34: an acquire is prepared, and sent after a pause of several TTLs, when the name
// has had other holders and is free again. No lease is granted that its sender does not
// know of: the next caller gets the name at once.
func TestDelayedAcquireIsNotGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		ctx := s.NewPath().Context(context.Background())
		parts := hook.From(ctx)
		d := &depot{inner: parts.Dial}
		parts.Dial = d.dial
		a, err := pawl.Dial(hook.With(ctx, parts), s.Servers(), pawl.Options{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		b := s.Dial(t, pawl.Options{TTL: ttl})
		let(t, take(t, a, "warm"))

		d.keep(true)
		asked, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := a.Acquire(asked, "x")
			result <- err
		}()
		time.Sleep(ttl)
		l := take(t, b, "x")
		time.Sleep(4 * ttl)
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Fatalf("the acquire that was held up: %v", err)
		}
		let(t, l)
		d.keep(false)
		synctest.Wait()

		begun := time.Now()
		next := take(t, b, "x")
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("the next one waited %v", waited)
		}
		if token, held := s.Holder(t, "x"); !held || token != next.Token() || next.Token() <= l.Token() {
			t.Errorf("held under %d, granted %d after %d", token, next.Token(), l.Token())
		}
	})
}
