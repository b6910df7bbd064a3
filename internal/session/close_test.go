package session

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

// A session that is lost while it is being closed may live on at the server.
func TestSessionLostWhileItIsClosedEndsUnconfirmed(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("@2500 down")
	s.takeTurn("close")
	s.takeTurn("@2945")
	if finished, confirmed := s.m.Finished(); !finished || confirmed {
		t.Errorf("finished %t, confirmed %t", finished, confirmed)
	}
}

// A reply that comes in one message after the server sent us away is not heard: the
// request is asked again where it sent us.
func TestRepliesAfterRedirectAreIgnored(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x", "acquire y")
	s.hear(&linkpb.ServerMessage{Replies: []*linkpb.Reply{
		{Number: 1, What: &linkpb.Reply_Refused{Refused: &linkpb.Refused{
			Reason: linkpb.Reason_REASON_UNAVAILABLE, ActiveLink: "c",
		}}},
		{Number: 2, What: &linkpb.Reply_Granted{Granted: s.granted(2, 5, nil)}},
	}})
	s.takeTurn()
	if s.calls[1].answered || s.attempt.Server != "c" || len(s.attempt.Hello.Wanted) != 2 {
		t.Errorf("dialled %s, wanting %v", s.attempt.Server, s.attempt.Hello.Wanted)
	}
}

func TestGreetingWithoutSessionIsRefused(t *testing.T) {
	s := start(t, ofTwo())
	s.hear(&linkpb.ServerMessage{Welcome: &linkpb.Welcome{Cell: "c", TtlNano: int64(3 * time.Second)}})
	s.takeTurn()
	if s.m.Up() || s.m.Trouble().Kind != InvalidAnswer {
		t.Errorf("up %t, trouble %s", s.m.Up(), text(s.m.Trouble()))
	}
}

// Tokens of one cell say nothing about those of another.
func TestHighestTokenIsPerCell(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x", "granted 1 5")
	s.takeTurn("closed gone")
	if h := s.attempt.Hello; h.HighestToken != 5 || h.Cell != "cell-1" {
		t.Errorf("of cell %s token %d was seen", h.Cell, h.HighestToken)
	}
	s.hear(&linkpb.ServerMessage{Welcome: &linkpb.Welcome{Cell: "cell-2", Session: []byte("t"), TtlNano: int64(3 * time.Second)}})
	s.takeTurn("down")
	s.takeTurn("@20")
	if h := s.attempt.Hello; h.HighestToken != 0 || h.Cell != "cell-2" {
		t.Errorf("of cell %s token %d was seen", h.Cell, h.HighestToken)
	}
}

// The request for a lower TTL takes the place of a renewal that was to be sent with it,
// since the message has room for one.
func TestTTLLoweredDuringCheckIsConfirmed(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x", "granted 1 5")
	s.out = nil
	s.takeTurn("check 5", "ttl 1s")
	if len(s.out) != 1 || !strings.Contains(s.out[0], " renewal 3 ttl 1s 2:check(5)") {
		t.Fatalf("asked: %q", s.out)
	}
	s.takeTurn("done 2", "renewed 3 1s")
	for _, c := range s.calls[1:] {
		if !c.answered || c.why != nil {
			t.Errorf("call %d: answered %t, %s", c.index, c.answered, text(c.why))
		}
	}
}

// The session was lost here, and its server was not told. Close tells one, or says that
// none was told.
func TestCloseAfterALossGivesTheSessionUp(t *testing.T) {
	for name, reached := range map[string]bool{"a server is reached": true, "none is": false} {
		t.Run(name, func(t *testing.T) {
			s := open(t, ofTwo())
			s.takeTurn("@3100")
			s.out = nil
			s.takeTurn("close")
			if finished, _ := s.m.Finished(); finished {
				t.Fatal("finished, and the lost session was not given up")
			}
			if !reached {
				s.takeTurn("@4200")
			} else {
				s.takeTurn("@3110 welcome 3s")
				s.takeTurn("closed")
			}
			if finished, confirmed := s.m.Finished(); !finished || confirmed != reached {
				t.Errorf("finished %t, confirmed %t", finished, confirmed)
			}
		})
	}
}

// A server that says so of a copy has not closed the session: the copy goes on with its
// leases.
func TestSessionMovedToCopyIsNotClosed(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x", "granted 1 5")
	s.takeTurn("close")
	s.takeTurn("closed conflict")
	s.takeTurn("@1010")
	if finished, confirmed := s.m.Finished(); !finished || confirmed {
		t.Errorf("finished %t, confirmed %t", finished, confirmed)
	}
}
