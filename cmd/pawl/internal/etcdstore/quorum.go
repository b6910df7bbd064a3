package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.uber.org/zap"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// QuorumOptions of a member among others.
type QuorumOptions struct {
	EmbeddedOptions
	// Node is this server's name, one of Peers.
	Node string
	// Peers are the servers of the quorum as this one was told: the first one founds
	// it. Members that were added later need not be among them.
	Peers []Peer
	// Listener takes the peers' connections. The store closes it.
	Listener net.Listener
	TLS      PeerFiles
	// Fresh is asked before a member is made in an empty folder; an error refuses it.
	Fresh func() error
}

// Quorum is a store on an etcd member inside this process that is one of several. It is
// open at once, and fails every request until its member has a place among the others.
type Quorum struct {
	*Embedded

	opts  QuorumOptions
	peers *peering
	// begun: the member has its place, and the store may be used.
	begun atomic.Bool
	// waits is what was said last that the start waits for.
	waits string
}

var _ store.Store = (*Quorum)(nil)

const (
	// beginPace is the pause between two looks at the peers.
	beginPace = 200 * time.Millisecond
	// leaderPace is the pause between two looks whether a member leads.
	leaderPace = 20 * time.Millisecond
	// foundingMark says in the folder that no client was served yet.
	foundingMark = "founding"
	// startTries bounds how often a joiner starts on a list of members that changes.
	startTries = 10
	// learnersMax bounds the members that catch up at the same time.
	learnersMax = 6
)

// OpenQuorum locks the folder and begins to look for the member's place: it founds the
// cluster, joins it, or goes on. It returns ErrInUse, store.ErrFull and store.ErrDamaged
// as OpenEmbedded does, and ErrFiles. What turns out later ends the store: Err is
// store.ErrRolledBack when the folder is an older one or of another cluster, and when
// the member was removed.
func OpenQuorum(ctx context.Context, opts QuorumOptions) (_ *Quorum, err error) {
	opts.EmbeddedOptions = opts.EmbeddedOptions.withDefaults()
	e := newEmbedded(opts.EmbeddedOptions)
	q := &Quorum{Embedded: e, opts: opts}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the quorum's store: %w", errors.Join(err, q.Close()))
		}
	}()
	if e.folder, err = openFolder(ctx, opts.Dir, FreeStart, opts.Clock); err != nil {
		return nil, err
	}
	e.folder.warnOpen(opts.Logger)
	if e.node, err = e.folder.nodeID(); err != nil {
		return nil, err
	}
	if q.peers, err = newPeering(opts); err != nil {
		return nil, err
	}
	served, err := Formed(e.folder.dir)
	if err != nil {
		return nil, err
	}
	var end folderEnd
	if served {
		if err := e.folder.inspect(); err != nil {
			return nil, err
		}
		if end, err = q.readEnd(); err != nil {
			return nil, err
		}
		q.peers.state.Store(founding.Starting)
		for _, m := range end.members {
			if m.ID != end.id {
				q.peers.more = append(q.peers.more, Peer{m.Name, m.URL})
			}
		}
	}
	e.Store = kvlog.New(place{q}, kvlog.Options{
		Clock: opts.Clock, ActiveTTL: opts.ActiveTTL, Logger: opts.Logger,
		// The folder's lock shows it.
		Resumes: true,
	})
	running, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.whyStopped = q.stopped
	go q.peers.serve(opts.Listener)
	e.upkeep.Go(func() {
		if err := q.begin(running, served, end); err != nil && running.Err() == nil {
			e.fail(err)
		}
	})
	return q, nil
}

// readEnd reads the folder, and turns etcd's panic into damage.
func (q *Quorum) readEnd() (end folderEnd, err error) {
	left := q.folder.path("etcd")
	words := newLastWords(q.Embedded.opts.Stderr)
	words.reads.Store(&left)
	defer func() {
		if p := recover(); p != nil {
			err = damage(left, fmt.Sprintf("cannot be read (%v)", p))
		}
	}()
	return readEnd(filepath.Join(left, "member"), zap.New(words))
}

// begin finds the member's place and then looks after the store until ctx ends.
func (q *Quorum) begin(ctx context.Context, served bool, end folderEnd) error {
	if err := q.take(ctx, served, end); err != nil {
		return err
	}
	e := q.Embedded
	if err := q.settle(ctx); err != nil {
		return err
	}
	e.server = v3rpc.NewQuotaKVServer(e.etcd.Server)
	reached, err := q.reachedSoon(ctx)
	if err != nil {
		return err
	}
	if err := e.folder.checkSeen(reached); err != nil {
		return err
	}
	q.peers.state.Store(founding.Member)
	q.begun.Store(true)
	e.opts.Logger.Info("the member has its place", "node", q.opts.Node, "members", len(membersOf(e.etcd)))
	e.upkeep.Go(func() { e.laySegments(ctx) })
	e.upkeep.Go(func() { q.noteEach(ctx) })
	e.maintain(ctx, reached)
	return nil
}

// take decides, and starts the member.
func (q *Quorum) take(ctx context.Context, served bool, end folderEnd) error {
	self := founding.Self{
		Name: q.opts.Node, First: q.opts.Peers[0].Name,
		Served: served, Cluster: end.cluster, ID: end.id, Last: end.last,
	}
	for {
		if !served {
			q.peers.state.Store(founding.Empty)
		}
		answers := q.peers.askAll(ctx, end.id)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		d := founding.Decide(self, q.peers.seenBy(answers))
		switch d.Do {
		case founding.Start:
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
			if e := (*refusedError)(nil); errors.As(err, &e) || errors.Is(err, errNotNow) {
				q.waiting(fmt.Sprintf("to be let in by %s: %v", strings.Join(d.Of, ", "), err))
				break
			}
			return err
		case founding.Wait:
			q.waiting(strings.Join(d.Of, ", ") + ": " + d.Why)
		}
		if !q.pause(ctx) {
			return context.Cause(ctx)
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

// waiting says what is waited for, when that changes.
func (q *Quorum) waiting(what string) {
	if q.waits != what {
		q.waits = what
		q.opts.Logger.Warn("the member waits", "for", what)
	}
}

func (q *Quorum) pause(ctx context.Context) bool {
	timer := q.opts.Clock.NewTimer()
	defer timer.Stop()
	timer.Reset(beginPace)
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
		return fmt.Errorf("%w: %s; to let it join as a new one: pawl member add %s=%s, and start it on an empty folder", store.ErrRolledBack, d.Why, name, url)
	case founding.Foreign:
		return fmt.Errorf("%w: %s; expected the folder of this member, or an empty one", store.ErrRolledBack, d.Why)
	case founding.Disagree:
		return fmt.Errorf("%w: %s", ErrPeers, d.Why)
	}
	return fmt.Errorf("%w: %s; %s", store.ErrRolledBack, d.Why, again)
}

// ErrPeers: the servers of a quorum were not started with what fits together.
var ErrPeers = errors.New("the peers do not agree")

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
		cfg.PeerTLSInfo = q.peers.tls.info()
		cfg.TickMs, cfg.ElectionMs = 100, 1000
		cfg.MaxLearners = learnersMax
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

func (q *Quorum) fresh() error {
	if q.opts.Fresh != nil {
		if err := q.opts.Fresh(); err != nil {
			return err
		}
	}
	return q.folder.form()
}

// enter joins by one of the peers. An error is errNotNow or a *refusedError where
// trying again may help.
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
	return fmt.Errorf("%w: join: %w", errNotNow, failed)
}

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
			q.waiting("a majority of the members; " + q.silent(ctx))
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

// silent names the members that do not answer.
func (q *Quorum) silent(ctx context.Context) string {
	var names []string
	for peer, a := range q.peers.askAll(ctx, 0) {
		if a.err != nil {
			names = append(names, peer.Name)
		}
	}
	if len(names) == 0 {
		return "all answer"
	}
	slices.Sort(names)
	return strings.Join(names, ", ") + " without an answer"
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
		if err != nil {
			what = err.Error()
		}
		select {
		case <-q.etcd.Server.StopNotify():
			return q.stopped()
		default:
		}
		if ctx.Err() == nil {
			q.waiting(what)
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

// isVoter has a learner promoted that has caught up, and removes whom it replaces.
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
	return "a majority of --peers to join; " + strings.Join(missing, ", ") + " missing", nil
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

// noteEach keeps what the other members have acknowledged, until ctx ends.
func (q *Quorum) noteEach(ctx context.Context) {
	timer := q.opts.Clock.NewTimer()
	defer timer.Stop()
	for {
		q.peers.noteReached(q.etcd)
		timer.Reset(q.Embedded.opts.ActiveTTL / 10)
		select {
		case <-timer.C():
		case <-ctx.Done():
			return
		case <-q.etcd.Server.StopNotify():
			return
		}
	}
}

// Close stops the member and gives the folder and the listener back.
func (q *Quorum) Close() error {
	if q.peers != nil {
		q.peers.leaves()
	}
	err := q.Embedded.Close()
	if q.peers != nil {
		q.peers.close()
	}
	if q.opts.Listener != nil {
		_ = q.opts.Listener.Close() // closed before, where it was served
	}
	return err
}

// place is the member's view of the store, once it has its place.
type place struct{ *Quorum }

// errNoPlace: the member has no place among the others yet.
var errNoPlace = errors.New("this server's member has not joined the others yet")

// bound is how long a request may take: a member that is cut off from the majority does
// not answer, and the tenure must learn it.
func (p place) bound(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := p.Err(); err != nil {
		return nil, nil, err
	}
	if !p.begun.Load() {
		return nil, nil, errNoPlace
	}
	ctx, cancel := context.WithTimeout(ctx, p.Embedded.opts.ActiveTTL/3)
	return ctx, cancel, nil
}

func (p place) Txn(ctx context.Context, t kvlog.Txn) (kvlog.Result, error) {
	ctx, cancel, err := p.bound(ctx)
	if err != nil {
		return kvlog.Result{}, err
	}
	defer cancel()
	return guarded{p.Embedded}.Txn(ctx, t)
}

func (p place) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	ctx, cancel, err := p.bound(ctx)
	if err != nil {
		return kvlog.Page{}, err
	}
	defer cancel()
	return guarded{p.Embedded}.Range(ctx, q)
}

func (p place) Compact(ctx context.Context, rev int64) error {
	if !p.begun.Load() {
		return errNoPlace
	}
	return guarded{p.Embedded}.Compact(ctx, rev)
}

func (p place) Usage(ctx context.Context) (store.Usage, error) {
	if !p.begun.Load() {
		return store.Usage{}, errNoPlace
	}
	return guarded{p.Embedded}.Usage(ctx)
}
