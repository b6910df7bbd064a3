package link

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// lines are what is logged.
type lines struct{ strings.Builder }

// since returns what was logged since the last time, without its time.
func (l *lines) since() (all []string) {
	for line := range strings.Lines(l.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "level=")
		all = append(all, text)
	}
	l.Reset()
	return all
}

// That answers pile up unread is logged when it begins and when it is over, and not
// for each of thousands of streams, nor each time when it comes and goes.
func TestUnreadAnswersAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for identity, told := range map[string]string{"a": "on all streams of this identity", "": "by all clients together"} {
			var log lines
			s := &Server{o: Options{Clock: clock.Bubble(), Logger: slog.New(slog.NewTextHandler(&log, nil))}}
			d := s.unreadOf(identity)
			spell := func(streams int) {
				t.Helper()
				d.add(int(d.most()) + 1)
				for range streams {
					if err := s.disconnectUnread(d, false); !strings.Contains(err.Error(), told) {
						t.Errorf("%q is told %v", identity, err)
					}
				}
				d.add(-int(d.most() / 4))
				s.logIfRead(d)
				if !d.cutting.Load() {
					t.Error("a spell is over although more than half of what may wait is left")
				}
				d.add(-int(d.bytes.Load()))
				s.logIfRead(d)
				s.logIfRead(d)
			}
			expect := func(when string, wanted ...string) {
				t.Helper()
				got := log.since()
				for i := range max(len(got), len(wanted)) {
					if i >= len(got) || i >= len(wanted) || !strings.Contains(got[i], wanted[i]) {
						t.Fatalf("%s, %q: the log has %q, expected %q", when, identity, got, wanted)
					}
				}
			}
			spell(1000)
			expect("a spell", "WARN", "disconnected=1000")
			spell(3)
			spell(4)
			expect("two more at once")
			time.Sleep(unreadLogGap)
			spell(2)
			expect("one later", "disconnected_before=7", "disconnected=2")
			spell(1)
			expect("one more at once")
			if err := s.disconnectUnread(d, true); strings.Contains(err.Error(), "identity") || strings.Contains(err.Error(), "all") {
				t.Errorf("a client that does not read itself is told %v", err)
			}
		}
	})
}

// What a stream that has ended was still to be told is wanted no more, but what the
// audit log is to have of it.
func TestEndedOutboxKeepsOnlyAuditRecords(t *testing.T) {
	for audited, out := range map[bool]*outbox{false: newOutbox(), true: newOutbox()} {
		if audited {
			out.audit = &streamAudit{}
		}
		answers := map[locktable.Answer]bool{
			locktable.Renewed{}: true, locktable.Done{}: !audited, locktable.Closed{}: true,
		}
		for a := range answers {
			if out.Gone(a) {
				t.Errorf("%T is not wanted on a stream that is there", a)
			}
		}
		out.close()
		for a, gone := range answers {
			if out.Gone(a) != gone {
				t.Errorf("%T, audited %v: gone is %v", a, audited, out.Gone(a))
			}
		}
	}
}

// A stream that is cut takes what it owed with it: the log is told that it is over,
// although nobody reads any more.
func TestUnreadEpisodeEndsWithLastStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		k := clock.Bubble()
		o := cell.Options{Store: memstore.NewDisk().Store(memstore.Options{Clock: k, Sole: true}), Clock: k, Name: "test"}
		o.Node.ID = [16]byte{1}
		c := cell.New(o)
		ran := make(chan error)
		go func() { ran <- c.Run(ctx) }()
		defer func() {
			cancel()
			<-ran
		}()
		<-c.Ready()
		s := New(c, Options{Clock: k})
		reading, closed := context.WithCancel(ctx)
		st := &greeter{ctx: reading, welcome: make(chan *linkpb.ServerMessage, 8)}
		ended := make(chan error, 1)
		go func() { ended <- s.Attach(st) }()
		<-st.welcome
		d := s.unreadOf("")
		if _, tell := d.episodeBegins(k.Now()); !tell {
			t.Fatal("the log is not told")
		}
		closed()
		<-ended
		if d.cutting.Load() || d.logged {
			t.Error("the last stream has gone, and its answers are still said to be unread")
		}
	})
}
