package etcdstore

import (
	"context"
	"fmt"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

const (
	// aloneMark says in the folder that its member is rightly the only voter: it was
	// recovered, or the others were removed.
	aloneMark = "alone"
	// watchParts of active-ttl pass between two looks at the others. A server that starts
	// waits for a whole one, and is heard and told of a twin meanwhile.
	watchParts = 4
	// doubtFor is how long the others must show a server that serves alone that it should
	// not. A member that was removed, or caught up late, has learned so by then.
	doubtFor = 5 * election
)

// watched is what a server that runs has seen of the others.
type watched struct {
	// more: there was another voter since the start.
	more bool
	// doubted since then; it is set if inDoubt.
	inDoubt bool
	doubted clock.Reading
}

// watchOthers asks the others now and then whether this server should run, until ctx
// ends.
func (q *Quorum) watchOthers(ctx context.Context) {
	var w watched
	q.every(ctx, q.Embedded.opts.ActiveTTL/watchParts, func() bool {
		one, cancel := context.WithTimeout(ctx, askMax)
		defer cancel()
		err := q.look(one, &w)
		if err != nil && ctx.Err() == nil {
			q.fail(err)
		}
		return err == nil
	})
}

// look returns why this server must stop.
func (q *Quorum) look(ctx context.Context, w *watched) error {
	s := q.etcd.Server
	self := founding.Self{
		Name: q.opts.Node, First: q.opts.Peers[0].Name,
		Served: true, Cluster: uint64(s.Cluster().ID()), ID: uint64(s.MemberID()),
	}
	_, peers := q.peers.look(ctx, self)
	if why := founding.Twin(self, peers); why != "" {
		return fmt.Errorf("%w: %s", ErrPeers, why)
	}
	// What is committed: a learner may apply it before this member does.
	self.Last = s.CommittedIndex()
	voters := votersOf(membersOf(q.etcd))
	if err := q.markAlone(len(voters), w); err != nil {
		q.opts.Logger.Warn("could not note whether the member is alone", "error", err)
	}
	if len(voters) != 1 || voters[0].ID != self.ID || !q.leads() {
		w.inDoubt = false
		return nil
	}
	why, sure := founding.Outgrown(self, peers)
	now := q.opts.Clock.Now()
	again := w.inDoubt
	if !again {
		w.doubted = now
	}
	w.inDoubt = why != ""
	// Never by one look: it may fall between the member's election and the first entry
	// that it commits as the leader, and till then it knows of less than was committed.
	if again && sure || w.inDoubt && now.Shorter(w.doubted) >= doubtFor {
		return fmt.Errorf("%w: %s; to let it join the others: remove %s, and start it again", store.ErrRolledBack, why, q.folder.path("etcd"))
	}
	return nil
}

// markAlone keeps whether the folder's member may be the only voter at its next start.
func (q *Quorum) markAlone(voters int, w *watched) error {
	w.more = w.more || voters > 1
	marked, err := q.folder.has(aloneMark)
	switch {
	case err != nil:
		return err
	case marked && voters > 1:
		return q.folder.remove(aloneMark)
	case !marked && voters == 1 && w.more:
		return q.folder.replace(aloneMark, nil)
	}
	return nil
}

// alone reports whether the folder's member would serve without anybody's vote, and no
// mark says that it may.
func (q *Quorum) alone(end folderEnd) (bool, error) {
	voters := votersOf(end.members)
	if end.others || len(voters) != 1 || voters[0].ID != end.id {
		return false, nil
	}
	for _, mark := range []string{foundingMark, aloneMark} {
		if marked, err := q.folder.has(mark); err != nil || marked {
			return false, err
		}
	}
	return true, nil
}

func votersOf(members []memberShown) (voters []memberShown) {
	for _, m := range members {
		if !m.Learner {
			voters = append(voters, m)
		}
	}
	return voters
}
