package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// settle waits until the member is a voter at its address, and a founder until it has a
// majority of the names.
func (q *Quorum) settle(ctx context.Context) error {
	if err := q.hasLeader(ctx); err != nil {
		return err
	}
	// From here on its log counts: it is never thrown away again.
	if err := q.folder.formed(); err != nil {
		return err
	}
	// A joiner takes all members for voters, itself too, until it has read the log.
	if _, err := q.reachedSoon(ctx); err != nil {
		return err
	}
	if err := q.untilDone(ctx, q.hasAddress); err != nil {
		return err
	}
	if err := q.untilDone(ctx, q.isVoter); err != nil {
		return err
	}
	founds, err := q.folder.has(foundingMark)
	if err != nil || !founds {
		return err
	}
	q.peers.state.Store(founding.Founding)
	if err := q.untilDone(ctx, q.hasMajority); err != nil {
		return err
	}
	return q.folder.remove(foundingMark)
}

// hasLeader waits until the member takes part. etcd's own sign that it is ready comes up
// to 7 s later, when the first message to a leader gets lost.
func (q *Quorum) hasLeader(ctx context.Context) error {
	timer := q.opts.Clock.NewTimer()
	defer timer.Stop()
	for since := q.opts.Clock.Now(); ; {
		if q.etcd.Server.Leader() != 0 {
			return nil
		}
		timer.Reset(leaderPace)
		select {
		case <-q.etcd.Server.StopNotify():
			return q.stopped()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C():
		}
		if now := q.opts.Clock.Now(); now.Longer(since) >= slowStart {
			since = now
			q.waiting(cmp.Or(q.missing(ctx), "the members to elect which one leads"), "")
		}
	}
}

// stopped says why etcd stopped by itself.
func (q *Quorum) stopped() error {
	if isRemoved(q.etcd, uint64(q.etcd.Server.MemberID())) {
		return q.refused(founding.Decision{Reason: founding.Removed, Why: fmt.Sprintf("the member %s was removed from the cluster", q.opts.Node)})
	}
	return errors.New("etcd stopped by itself")
}

// untilDone tries until something is done; the text says what it waits for.
func (q *Quorum) untilDone(ctx context.Context, try func(context.Context) (string, error)) error {
	for {
		one, cancel := context.WithTimeout(ctx, joinMax)
		what, err := try(one)
		cancel()
		if err == nil && what == "" {
			return nil
		}
		why := ""
		if err != nil {
			what, why = "the other members", err.Error()
		}
		select {
		case <-q.etcd.Server.StopNotify():
			return q.stopped()
		default:
		}
		if ctx.Err() == nil {
			q.waiting(what, why)
		}
		if !q.pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// hasAddress tells the cluster where this member is now.
func (q *Quorum) hasAddress(ctx context.Context) (string, error) {
	own := q.peers.own()
	m := q.etcd.Server.Cluster().Member(q.etcd.Server.MemberID())
	if m == nil || slices.Equal(m.PeerURLs, []string{own.URL}) {
		return "", nil
	}
	urls, err := types.NewURLs([]string{own.URL})
	if err != nil {
		return "", err
	}
	_, err = q.etcd.Server.UpdateMember(ctx, membership.Member{ID: m.ID, RaftAttributes: membership.RaftAttributes{PeerURLs: urls.StringSlice(), IsLearner: m.IsLearner}})
	if err != nil {
		return "", fmt.Errorf("to tell the others its address: %w", err)
	}
	return "", nil
}

// isVoter has a learner promoted that has caught up, and removes the member that it replaces.
func (q *Quorum) isVoter(ctx context.Context) (string, error) {
	s := q.etcd.Server
	m := s.Cluster().Member(s.MemberID())
	if m == nil {
		return "to learn of its own place", nil
	}
	if m.IsLearner {
		_, err := s.PromoteMember(ctx, uint64(m.ID))
		if err != nil && !errors.Is(err, membership.ErrMemberNotLearner) {
			return "", fmt.Errorf("to become a voter: %w", changeError(err))
		}
		return "its vote", nil
	}
	for _, x := range expectations(q.etcd) {
		if x.Name != q.opts.Node || x.Replaces == "" {
			continue
		}
		if err := q.dismiss(ctx, x.Replaces); err != nil {
			return "", fmt.Errorf("%s, which it replaces, to be removed: %w", x.Replaces, err)
		}
		x.Replaces = ""
		if err := putExpected(ctx, q.etcd, x); err != nil {
			return "", err
		}
	}
	return "", nil
}

// hasMajority waits for the founder's majority.
func (q *Quorum) hasMajority(context.Context) (string, error) {
	voters := map[string]bool{}
	for _, m := range membersOf(q.etcd) {
		if !m.Learner {
			voters[m.URL] = true
		}
	}
	var missing []string
	for _, peer := range q.opts.Peers {
		if !voters[peer.URL] {
			missing = append(missing, peer.Name)
		}
	}
	if n := len(q.opts.Peers); n-len(missing) > n/2 {
		return "", nil
	}
	return fmt.Sprintf("a majority of --peers to join (%s missing)", strings.Join(missing, ", ")), nil
}

// reachedSoon reads how far the store is, as soon as a majority answers.
func (q *Quorum) reachedSoon(ctx context.Context) (seen kvlog.Seen, err error) {
	err = q.untilDone(ctx, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, askMax)
		defer cancel()
		var err error
		seen, err = q.reached(ctx)
		return "", err
	})
	return seen, err
}
