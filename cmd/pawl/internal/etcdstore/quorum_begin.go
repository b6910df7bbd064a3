package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

const (
	// beginPace is the pause between two looks at the peers.
	beginPace = 200 * time.Millisecond
	// leaderPace is the pause between two looks whether a member leads.
	leaderPace = 20 * time.Millisecond
	// foundingMark says in the folder that no client was served yet.
	foundingMark = "founding"
	// startTries bounds how often a joiner starts on a list of members that changes.
	startTries = 10
	// enterPauseMax bounds the pause before a member is let in again that could not start.
	enterPauseMax = time.Minute
)

// begin finds the member's place and then looks after the store until ctx ends.
func (q *Quorum) begin(ctx context.Context, served bool, end folderEnd) error {
	if err := q.take(ctx, served, end); err != nil {
		return err
	}
	e := q.Embedded
	e.server = v3rpc.NewQuotaKVServer(e.etcd.Server)
	if err := q.settle(ctx); err != nil {
		return err
	}
	reached, err := q.reachedSoon(ctx)
	if err != nil {
		return err
	}
	if err := e.folder.checkSeen(reached); err != nil {
		return err
	}
	q.peers.state.Store(founding.Member)
	q.begun.Store(true)
	q.waits.Store(nil)
	e.opts.Logger.Info("the member has its place", "node", q.opts.Node, "members", len(membersOf(e.etcd)))
	e.upkeep.Go(func() { e.laySegments(ctx) })
	e.upkeep.Go(func() { q.noteEach(ctx) })
	e.upkeep.Go(func() { q.watchLead(ctx) })
	e.upkeep.Go(func() { q.watchOthers(ctx) })
	e.upkeep.Go(func() { q.watchMajority(ctx) })
	e.maintain(ctx, reached)
	return nil
}

// take decides, and starts the member.
func (q *Quorum) take(ctx context.Context, served bool, end folderEnd) error {
	self := founding.Self{
		Name: q.opts.Node, First: q.opts.Peers[0].Name,
		Served: served, Cluster: end.cluster, ID: end.id, Last: end.last,
	}
	var err error
	if served {
		if self.Alone, err = q.alone(end); err != nil {
			return err
		}
	}
	since, rested := q.opts.Clock.Now(), len(end.members) <= 1
	entering := beginPace
	for {
		if !served {
			q.peers.state.Store(founding.Empty)
		}
		answers, peers := q.peers.look(ctx, self)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		d := founding.Decide(self, peers)
		switch d.Do {
		case founding.Start:
			if name := end.name(); name != "" && name != q.opts.Node {
				return fmt.Errorf("%w: %s is the folder of the member %s, and --node is %s: a copy of it would be that member a second time; expected the folder of this member, or an empty one",
					store.ErrRolledBack, q.folder.dir, name, q.opts.Node)
			}
			if !rested {
				// Then they are asked again: one that was silent for a moment may know that the
				// folder is old, and others may have heard a twin meanwhile.
				if rested = q.rested(ctx, since); !rested {
					return context.Cause(ctx)
				}
				continue
			}
			if d.Unchecked && d.Why != "" {
				q.opts.Logger.Warn("the folder is used unchecked", "why", d.Why)
			}
			return q.goOn()
		case founding.Found:
			return q.found()
		case founding.Refuse:
			return q.refused(d)
		case founding.Join:
			err := q.enter(ctx, byNames(answers, d.Of))
			if err == nil {
				return nil
			}
			if errors.Is(err, errNoStart) {
				// Each try makes it a member and removes it again, so the tries become few.
				entering = min(2*entering, enterPauseMax)
				q.opts.Logger.Warn("the member was let in and could not start; it joins again as a new one", "error", err, "again_after", entering)
				if !q.pauseFor(ctx, entering) {
					return context.Cause(ctx)
				}
				continue
			}
			if e := (*refusedError)(nil); errors.As(err, &e) || errors.Is(err, errNotNow) {
				q.waiting(strings.Join(d.Of, ", ")+" to let it in", err.Error())
				break
			}
			return err
		case founding.Wait:
			q.waiting(fmt.Sprintf("%s (%s)", strings.Join(d.Of, ", "), d.Why), "")
		}
		if !q.pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// rested waits until a whole ActiveTTL has passed since this server started. If its disk
// has lost a take-over that it had acknowledged, the server that was deposed by it has
// ended its tenure by then (docs/internals/set-back.md).
func (q *Quorum) rested(ctx context.Context, since clock.Reading) bool {
	for {
		left := q.Embedded.opts.ActiveTTL - q.opts.Clock.Now().Shorter(since)
		if left <= 0 {
			return true
		}
		if !q.pauseFor(ctx, left) {
			return false
		}
	}
}

func byNames(answers map[Peer]answer, names []string) []Peer {
	var by []Peer
	for peer, a := range answers {
		if a.err == nil && slices.Contains(names, a.Name) {
			by = append(by, peer)
		}
	}
	return by
}

func (q *Quorum) pause(ctx context.Context) bool { return q.pauseFor(ctx, beginPace) }

// pauseFor waits; false: ctx ended.
func (q *Quorum) pauseFor(ctx context.Context, d time.Duration) bool {
	timer := q.opts.Clock.NewTimer()
	defer timer.Stop()
	timer.Reset(d)
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// refused is a decision as an error, with what to do.
func (q *Quorum) refused(d founding.Decision) error {
	name, url := q.opts.Node, q.peers.own().URL
	again := fmt.Sprintf("to go on, let it join with an empty folder: keep a copy of %s, remove %s, and start it again", q.folder.dir, q.folder.path("etcd"))
	switch d.Reason {
	case founding.Removed:
		return fmt.Errorf("%w: %s; to let it join as a new one: pawl member add %s=%s, remove %s, and start it again", store.ErrRolledBack, d.Why, name, url, q.folder.path("etcd"))
	case founding.Foreign:
		return fmt.Errorf("%w: %s; expected the folder of this member, or an empty one", store.ErrRolledBack, d.Why)
	case founding.Disagree, founding.Even, founding.Twice:
		return fmt.Errorf("%w: %s", ErrPeers, d.Why)
	}
	return fmt.Errorf("%w: %s; %s", store.ErrRolledBack, d.Why, again)
}

// ErrPeers: the servers of a quorum were not started with what fits together.
var ErrPeers = errors.New("the peers do not fit together")

// launch starts the member on what is in the folder, or on an empty one.
func (q *Quorum) launch(left string, as func(*embed.Config)) error {
	own := q.peers.own()
	u, err := url.Parse(own.URL)
	if err != nil {
		return err
	}
	err = q.Embedded.launch(left, nil, func(cfg *embed.Config) {
		cfg.Name = own.Name
		cfg.AdvertisePeerUrls = []url.URL{*u}
		cfg.InitialCluster = own.Name + "=" + own.URL
		cfg.PeerTLSInfo = q.peers.tls.Info()
		cfg.TickMs, cfg.ElectionMs = uint(tick.Milliseconds()), uint(election.Milliseconds())
		as(cfg)
	})
	if err != nil {
		return err
	}
	q.peers.runs(q.etcd)
	return nil
}

func (q *Quorum) goOn() error {
	return q.launch(q.folder.path("etcd"), func(*embed.Config) {})
}

// found makes a cluster of this member alone. It serves no client until a majority of
// the names is in it: else a founder that loses its disk before anybody has joined
// would found the cluster again, without what it had acknowledged.
func (q *Quorum) found() error {
	if err := q.fresh(); err != nil {
		return err
	}
	if err := q.folder.replace(foundingMark, nil); err != nil {
		return err
	}
	q.opts.Logger.Info("founding the cluster", "node", q.opts.Node, "peers", len(q.opts.Peers))
	return q.launch("", func(*embed.Config) {})
}

// fresh clears the folder for a member that is new: what another one had reached there, of
// this cluster or of one that is gone, is nothing to it.
func (q *Quorum) fresh() error {
	if q.opts.Fresh != nil {
		if err := q.opts.Fresh(); err != nil {
			return err
		}
	}
	for _, name := range []string{"seen", aloneMark} {
		if err := q.folder.remove(name); err != nil {
			return err
		}
	}
	return q.folder.form()
}

// errNoStart: the cluster made this server a member, and its etcd did not start.
var errNoStart = errors.New("the member does not start")

// enter joins by one of the peers. An error is errNotNow, errNoStart or a *refusedError
// where trying again may help.
func (q *Quorum) enter(ctx context.Context, by []Peer) error {
	if err := q.fresh(); err != nil {
		return err
	}
	q.peers.state.Store(founding.Joining)
	id, err := q.peers.join(ctx, by)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotNow, err)
	}
	var failed error
	// The list must be the cluster's when etcd starts; others join meanwhile.
	for range startTries {
		for _, peer := range by {
			a, err := q.peers.ask(ctx, peer.URL, 0)
			if err != nil {
				failed = err
				continue
			}
			list, err := initial(q.peers.own(), id, a.Members)
			if err != nil {
				failed = err
				continue
			}
			err = q.launch("", func(cfg *embed.Config) {
				cfg.ClusterState = embed.ClusterStateFlagExisting
				cfg.InitialCluster = list
			})
			if err == nil {
				return nil
			}
			failed = err
			if err := q.folder.form(); err != nil {
				return err
			}
		}
		if !q.pause(ctx) {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%w: %w", errNoStart, failed)
}
