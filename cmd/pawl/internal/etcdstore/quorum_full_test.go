package etcdstore

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/testwait"
)

// fullByTheDead founds three members, of which one has raised the quota alarm and is
// gone for good. It returns the one that leads, and the one that is gone.
func fullByTheDead(t *testing.T) (leader, dead *Quorum) {
	t.Helper()
	all := foundQuorum(t, 3)
	for _, q := range all {
		if _, ok := raftStatus(q.etcd); ok { // one of a process has it
			leader = q
		} else {
			dead = q
		}
	}
	testwait.Until(t, bound, "the member leads that knows whom it hears", func() bool {
		for _, q := range all {
			if q.leads() && q != leader {
				_ = moveLead(t.Context(), q.etcd, leader.Own()) // tried again
			}
		}
		return leader.leads()
	})
	raise := &pb.AlarmRequest{MemberID: dead.Own(), Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	if _, err := leader.etcd.Server.Alarm(t.Context(), raise); err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if err := putExpected(t.Context(), leader.etcd, expected{Name: "n9"}); !errors.Is(err, etcderrors.ErrNoSpace) {
		t.Fatalf("a write under the alarm: %v", err)
	}
	return leader, dead
}

// The alarm of a member that is gone for good is taken back by the leader: not at once,
// and not while the member is heard.
func TestQuorumAlarmOfDeadMemberIsTakenBack(t *testing.T) {
	leader, dead := fullByTheDead(t)
	now := clock.System().Now()
	u := newUpkeep(leader.Embedded, kvlog.Seen{}, now)
	testwait.Until(t, bound, "the leader misses the member", func() bool {
		u.turn(t.Context(), now)
		_, missed := u.silent[dead.Own()]
		return missed
	})
	u.turn(t.Context(), now.Add(alarmAfter-time.Second))
	if len(leader.etcd.Server.Alarms()) != 1 {
		t.Error("the alarm of a member that has just fallen silent was taken back")
	}
	u.turn(t.Context(), now.Add(alarmAfter))
	if left := leader.etcd.Server.Alarms(); len(left) != 0 {
		t.Errorf("the alarm of a member that is gone stays: %v", left)
	}
	if err := putExpected(t.Context(), leader.etcd, expected{Name: "n9"}); err != nil {
		t.Errorf("a write after the alarm: %v", err)
	}
}

// care looks after a member without letting time pass, until ctx ends: only the alarm of
// what is no member is taken back.
func care(ctx context.Context, q *Quorum) {
	now := clock.System().Now()
	for ctx.Err() == nil {
		newUpkeep(q.Embedded, kvlog.Seen{}, now).turn(ctx, now)
	}
}

// A dead member is removed from a store that its alarm has made full, and is noted as
// removed.
func TestQuorumDeadMemberIsRemovedUnderItsAlarm(t *testing.T) {
	leader, dead := fullByTheDead(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leader.upkeep.Go(func() { care(ctx, leader) })
	if err := leader.RemoveMember(t.Context(), dead.opts.Node); err != nil {
		t.Fatal(err)
	}
	if x, _ := leader.peers.expects(leader.etcd, dead.opts.Node); !x.Removed || x.URL == "" {
		t.Errorf("it is noted as %+v", x)
	}
	if n := len(membersOf(leader.etcd)); n != 2 {
		t.Errorf("%d members are left", n)
	}
}

// A dead member is replaced in a store that its alarm has made full.
func TestQuorumDeadMemberIsReplacedUnderItsAlarm(t *testing.T) {
	leader, dead := fullByTheDead(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leader.upkeep.Go(func() { care(ctx, leader) })
	if err := leader.AddMember(t.Context(), "n4", "http://127.0.0.1:1", dead.opts.Node); err != nil {
		t.Fatal(err)
	}
	if x, known := leader.peers.expects(leader.etcd, "n4"); !known || x.Replaces != dead.opts.Node {
		t.Errorf("it is noted as %+v", x)
	}
	if n := len(membersOf(leader.etcd)); n != 2 {
		t.Errorf("%d members are left", n)
	}
}
