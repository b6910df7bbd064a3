package etcdstore

import (
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/pawlproject/pawl/internal/clock"
)

// A member is gone when it led before this server's own and has not answered it for some
// heartbeats; whoever has answered once in this lead is not.
func TestGone(t *testing.T) {
	const own, active, third = 1, 2, 3
	status := func(state raft.StateType, answered ...uint64) raft.Status {
		s := raft.Status{Progress: map[uint64]tracker.Progress{own: {}, active: {}, third: {}}}
		s.RaftState = state
		for _, id := range answered {
			s.Progress[id] = tracker.Progress{RecentActive: true}
		}
		return s
	}
	for _, c := range []struct {
		what string
		run  func(l *lead)
		gone bool
	}{
		{"it led and is silent", func(l *lead) {
			l.note(active)
			l.note(0)
			l.note(own)
			time.Sleep(goneAfter)
			l.hear(status(raft.StateLeader, third))
		}, true},
		{"for too short a time", func(l *lead) {
			l.note(active)
			l.note(own)
			time.Sleep(goneAfter - 1)
		}, false},
		{"it led and answers", func(l *lead) {
			l.note(active)
			l.note(own)
			time.Sleep(goneAfter)
			l.hear(status(raft.StateLeader, active))
		}, false},
		{"it answered once", func(l *lead) {
			l.note(active)
			l.note(own)
			l.hear(status(raft.StateLeader, active))
			time.Sleep(time.Second)
			l.hear(status(raft.StateLeader))
		}, false},
		{"another one led", func(l *lead) {
			l.note(active)
			l.note(third)
			l.note(own)
			time.Sleep(time.Second)
		}, false},
		{"another one leads", func(l *lead) {
			l.note(active)
			l.note(own)
			l.note(third)
			time.Sleep(time.Second)
		}, false},
		{"this one leads no more", func(l *lead) {
			l.note(active)
			l.note(own)
			time.Sleep(time.Second)
			l.hear(status(raft.StateFollower))
		}, false},
		{"nobody led before", func(l *lead) {
			l.note(own)
			time.Sleep(time.Second)
		}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lead{clock: clock.Bubble(), term: newTerm()}
				c.run(l)
				if gone := l.gone(own, active); gone != c.gone {
					t.Errorf("gone: %v", gone)
				}
			})
		})
	}
}
