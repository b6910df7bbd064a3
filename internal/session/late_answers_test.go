package session

import (
	"testing"

	"github.com/pawlproject/pawl/api/linkpb"
)

// What an older stream still says is not heard, while the next one is dialled and when
// it is there: neither an answer nor that it has ended.
func TestOlderStreamIsIgnored(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x")
	old := s.attempt.ID
	said := &linkpb.ServerMessage{Replies: []*linkpb.Reply{{
		Number: 1, What: &linkpb.Reply_Granted{Granted: s.granted(1, 5, nil)},
	}}}
	s.takeTurn("down")
	late := func(when string) {
		t.Helper()
		s.out = nil
		s.m.Heard(old, said)
		s.m.Disconnected(old, &Cause{Kind: Timeout})
		s.m.Disconnected(old, Refuse(linkpb.Reason_REASON_DENIED, ""))
		s.takeTurn()
		if len(s.out) != 0 {
			t.Errorf("%s: %q", when, s.out)
		}
	}
	late("before the next one is dialled")
	s.takeTurn("@20")
	late("while it is dialled")
	s.takeTurn("@30 welcome 3s")
	late("when it is there")
	if !s.m.Up() {
		t.Error("the present stream is given up")
	}
}
