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
		run  func(l *lead, sleep func(time.Duration))
		gone bool
	}{
		{"it led and is silent", func(l *lead, sleep func(time.Duration)) {
			l.note(active)
			l.note(0)
			l.note(own)
			sleep(goneAfter)
			l.hear(status(raft.StateLeader, third))
		}, true},
		{"for too short a time", func(l *lead, sleep func(time.Duration)) {
			l.note(active)
			l.note(own)
			sleep(goneAfter - 1)
		}, false},
		{"it led and answers", func(l *lead, sleep func(time.Duration)) {
			l.note(active)
			l.note(own)
			sleep(goneAfter)
			l.hear(status(raft.StateLeader, active))
		}, false},
		{"it answered once", func(l *lead, sleep func(time.Duration)) {
			l.note(active)
			l.note(own)
			l.hear(status(raft.StateLeader, active))
			sleep(time.Second)
			l.hear(status(raft.StateLeader))
		}, false},
		{"another one led", func(l *lead, sleep func(time.Duration)) {
			l.note(active)
			l.note(third)
			l.note(own)
			sleep(time.Second)
		}, false},
		{"another one leads", func(l *lead, sleep func(time.Duration)) {
			l.note(active)
			l.note(own)
			l.note(third)
			sleep(time.Second)
		}, false},
		{"this one leads no more", func(l *lead, sleep func(time.Duration)) {
			l.note(active)
			l.note(own)
			sleep(time.Second)
			l.hear(status(raft.StateFollower))
		}, false},
		{"nobody led before", func(l *lead, sleep func(time.Duration)) {
			l.note(own)
			sleep(time.Second)
		}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lead{clock: clock.Bubble(), term: newTerm()}
				c.run(l, time.Sleep)
				if gone := l.gone(own, active); gone != c.gone {
					t.Errorf("gone: %v", gone)
				}
			})
		})
	}
}
