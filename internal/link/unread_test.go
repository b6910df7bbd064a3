package link

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/service"
	"github.com/pawlproject/pawl/internal/wire"
)

// Streams that are ended because their answers are not read are logged once a minute for
// each identity, with their number.
func TestUnreadAnswersAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for identity, told := range map[string]string{"a": "on all streams of this identity", "": "by all clients together"} {
			var log strings.Builder
			s := &Server{o: Options{Clock: clock.Bubble(), Logger: slog.New(slog.NewTextHandler(&log, nil))}}
			d := s.unreadOf(identity)
			d.add(int(d.most()) + 1)
			disconnect := func(streams int, logged string) {
				t.Helper()
				for range streams {
					if err := s.disconnectUnread(d, false); !strings.Contains(err.Error(), told) {
						t.Errorf("%q is told %v", identity, err)
					}
				}
				got := log.String()
				if log.Reset(); logged == "" && got != "" || strings.Count(got, "\n") > 1 || !strings.Contains(got, logged) {
					t.Errorf("%q: the log has %q, expected one line with %q", identity, got, logged)
				}
			}
			disconnect(1000, "disconnected_before=0")
			time.Sleep(logGap - time.Nanosecond)
			disconnect(7, "")
			time.Sleep(time.Nanosecond)
			disconnect(3, "disconnected_before=1006")
			time.Sleep(logGap)
			disconnect(1, "disconnected_before=2")
			if err := s.disconnectUnread(d, true); strings.Contains(err.Error(), "identity") || strings.Contains(err.Error(), "all") {
				t.Errorf("a client that does not read itself is told %v", err)
			}
		}
	})
}

// A client that was too slow is told so, even if its stream has ended by itself at the
// same moment.
func TestSlowReaderIsToldSoWhenItsStreamEnds(t *testing.T) {
	s := &Server{o: Options{Clock: clock.System(), Logger: slog.New(slog.DiscardHandler)}}
	out := newOutbox()
	out.budget = s.unreadOf("a")
	if err := s.told(nil, out); err != nil {
		t.Errorf("a client that reads is told %v", err)
	}
	for range burstMax/wire.Weight(locktable.Done{}) + 1 {
		out.Receive(1, locktable.Done{})
	}
	if err := s.told(nil, out); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a client that does not read is told %v", err)
	}
}

// What a stream that has ended was still to be told is wanted no more, but what the
// audit log is to have of it.
func TestEndedOutboxKeepsOnlyAuditRecords(t *testing.T) {
	for audited, out := range map[bool]*outbox{false: newOutbox(), true: newOutbox()} {
		if audited {
			out.audit = &service.StreamAudit{}
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
