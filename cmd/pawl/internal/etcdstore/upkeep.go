package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

const (
	// compactRevisions and compactAfter bound the past that etcd keeps when no
	// snapshot of ours compacts it.
	compactRevisions = 10_000
	compactAfter     = 5 * time.Minute
	// seenAfter is how far the file "seen" may lag.
	seenAfter = 10 * time.Second
	// alarmAfter is for how long a member must be silent until the leader takes back the
	// alarm that it raised.
	alarmAfter = 10 * time.Second
	// makeRoomGap is the pause between two tries to make room: each copies the
	// whole database and stops the member meanwhile.
	makeRoomGap = 5 * time.Second
)

// upkeep is the state of the loop of maintain.
type upkeep struct {
	*Embedded
	compacted kvlog.Seen
	at        clock.Reading
	written   kvlog.Seen
	writtenAt clock.Reading
	// roomMadeAt is when room was last made; it is set if roomMade.
	roomMade   bool
	roomMadeAt clock.Reading
	// silent is since when, while this member leads, one that raised an alarm has given
	// no sign of life.
	silent map[uint64]clock.Reading
}

// maintain looks at folder, alarm and past every tenth of active-ttl.
func (e *Embedded) maintain(ctx context.Context, reached kvlog.Seen) {
	now := e.opts.Clock.Now()
	u := newUpkeep(e, reached, now)
	timer := e.opts.Clock.NewTimer()
	defer timer.Stop()
	for {
		if err := e.folder.same(); err != nil {
			e.fail(err)
			return
		}
		u.turn(ctx, e.opts.Clock.Now())
		timer.Reset(e.opts.ActiveTTL / 10)
		select {
		case <-timer.C():
		case <-e.etcd.Server.StopNotify():
			e.fail(e.whyStopped())
			return
		case <-ctx.Done():
			if e.folder.same() == nil {
				u.note(e.seenNow(), e.opts.Clock.Now())
			}
			return
		}
	}
}

func newUpkeep(e *Embedded, reached kvlog.Seen, now clock.Reading) *upkeep {
	return &upkeep{Embedded: e, compacted: reached, at: now, written: reached, writtenAt: now, silent: map[uint64]clock.Reading{}}
}

func (e *Embedded) seenNow() kvlog.Seen {
	return kvlog.Seen{Rev: e.etcd.Server.KV().Rev(), Cluster: uint64(e.etcd.Server.Cluster().ID())}
}

func (u *upkeep) turn(ctx context.Context, now clock.Reading) {
	seen := u.seenNow()
	u.warn("ease the quota alarm", u.makeRoom(ctx, seen, now))
	old := now.Longer(u.at) >= compactAfter && seen.Rev > u.compacted.Rev
	if !u.leads() {
		// What one member compacts is compacted at all.
		u.compacted, u.at = seen, now
	} else if old || seen.Rev-u.compacted.Rev >= compactRevisions {
		u.warn("compact the store", u.compact(ctx, seen.Rev))
		u.compacted, u.at = seen, now
	}
	if seen != u.written && now.Longer(u.writtenAt) >= seenAfter {
		u.note(seen, now)
	}
}

// answersFor reports whether this member takes back the alarm of a member: its own, and
// while it leads those of members that are no longer, or have been silent for alarmAfter.
// One that comes back and is still full raises it anew.
func (u *upkeep) answersFor(id uint64, now clock.Reading) bool {
	if id == uint64(u.etcd.Server.MemberID()) {
		return true
	}
	if !u.leads() {
		clear(u.silent)
		return false
	}
	if u.etcd.Server.Cluster().Member(types.ID(id)) == nil {
		return true
	}
	s, ok := raftStatus(u.etcd)
	if p, known := s.Progress[id]; !ok || !known || p.RecentActive {
		delete(u.silent, id)
		return false
	}
	since, known := u.silent[id]
	if !known {
		u.silent[id] = now
	}
	return known && now.Shorter(since) >= alarmAfter
}

// leads reports whether this member leads; a single one does.
func (e *Embedded) leads() bool { return e.etcd.Server.Leader() == e.etcd.Server.MemberID() }

// note keeps what was reached.
func (u *upkeep) note(seen kvlog.Seen, now clock.Reading) {
	u.warn("keep what the store has reached", u.folder.writeSeen(seen))
	u.written, u.writtenAt = seen, now
}

func (u *upkeep) warn(doing string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		u.opts.Logger.Warn("could not "+doing, "error", err)
	}
}

// makeRoom makes room before the quota is reached, as far as dropping the past
// makes any, and takes back the alarm that etcd raised when it was.
func (u *upkeep) makeRoom(ctx context.Context, seen kvlog.Seen, now clock.Reading) error {
	backend := u.etcd.Server.Backend()
	raised := slices.DeleteFunc(u.etcd.Server.Alarms(), func(a *pb.AlarmMember) bool { return a.Alarm != pb.AlarmType_NOSPACE || !u.answersFor(a.MemberID, now) })
	// etcd counts the file, free pages and all; only defragmenting shrinks it.
	wasteful := backend.Size() > u.opts.Quota/10*6 && backend.SizeInUse() < backend.Size()/2
	if len(raised) == 0 && !wasteful || u.roomMade && now.Longer(u.roomMadeAt) < makeRoomGap {
		return nil
	}
	u.roomMade, u.roomMadeAt = true, now
	if err := u.compact(ctx, seen.Rev); err != nil {
		return err
	}
	if err := backend.Defrag(); err != nil {
		return err
	}
	if backend.Size()+2*store.BatchMax > u.opts.Quota {
		return nil
	}
	for _, a := range raised {
		disarm := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: a.MemberID, Alarm: a.Alarm}
		if _, err := u.etcd.Server.Alarm(ctx, disarm); err != nil {
			return err
		}
		u.opts.Logger.Info("the store has room again", "bytes", backend.Size(), "quota", u.opts.Quota, "member", u.nameOf(a.MemberID))
	}
	return nil
}

// usage counts what is in use, since the rest of the file is used again.
func (e *Embedded) usage() (store.Usage, error) {
	free, err := e.folder.free()
	return store.Usage{Used: e.etcd.Server.Backend().SizeInUse(), Quota: e.opts.Quota, Free: free}, err
}

// countMost bounds what was written and is not yet counted in the database's
// size.
const countMost = 16 << 20

// wrote makes etcd commit its database before much of the quota has been written. Until
// the database follows the log, neither use nor quota shows the writes, and deleted
// space is not used again.
func (e *Embedded) wrote(t kvlog.Txn) {
	if !t.Writes() {
		return
	}
	bytes := int64(0)
	for _, op := range t.Then {
		bytes += int64(len(op.Value))
	}
	if e.uncounted.Add(bytes) >= min(countMost, e.opts.Quota/64) {
		e.uncounted.Store(0)
		e.etcd.Server.Backend().ForceCommit()
	}
}

// compact returns when the room is free again, so that the use read next shows
// it.
func (e *Embedded) compact(ctx context.Context, rev int64) error {
	_, err := e.server.Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true})
	if err != nil && !errors.Is(etcdError(err), rpctypes.ErrCompacted) {
		return fmt.Errorf("compact up to revision %d: %w", rev, translate(err))
	}
	e.etcd.Server.Backend().ForceCommit()
	return nil
}
