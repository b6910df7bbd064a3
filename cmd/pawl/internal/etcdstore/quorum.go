package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/peerconn"
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
	TLS      peerconn.Files
	// Fresh is asked before a member is made in an empty folder; an error refuses it.
	Fresh func() error
}

// Quorum is a store on an etcd member inside this process that is one of several. It is
// open at once, and fails every request until its member has a place among the others.
type Quorum struct {
	*Embedded

	opts  QuorumOptions
	peers *peering
	lead  lead
	// begun: the member has its place, and the store may be used.
	begun atomic.Bool
	// waits is what was said last that the member waits for; empty: it does not wait.
	waits atomic.Pointer[string]
	// said is that with the reason, as it was logged last.
	said atomic.Pointer[string]
}

var _ store.Store = (*Quorum)(nil)

// OpenQuorum locks the folder and begins to look for the member's place: it founds the
// cluster, joins it, or goes on. It returns ErrInUse, store.ErrFull and store.ErrDamaged
// as OpenEmbedded does, and ErrFiles. What turns out later ends the store: Err is
// store.ErrRolledBack when the folder is an older one or of another cluster, and when
// the member was removed.
func OpenQuorum(ctx context.Context, opts QuorumOptions) (_ *Quorum, err error) {
	opts.EmbeddedOptions = opts.EmbeddedOptions.withDefaults()
	e := newEmbedded(opts.EmbeddedOptions)
	q := &Quorum{Embedded: e, opts: opts, lead: lead{clock: opts.Clock, term: newTerm()}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the quorum's store: %w", errors.Join(err, q.Close()))
		}
	}()
	if e.folder, err = openFolder(ctx, opts.Dir, FreeStart, opts.Clock); err != nil {
		return nil, err
	}
	e.folder.warnOpen(opts.Logger)
	if err := e.folder.clearRecovered(); err != nil {
		return nil, err
	}
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
		Members: q,
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

// noteEach keeps what the other members have acknowledged, until ctx ends.
func (q *Quorum) noteEach(ctx context.Context) {
	q.every(ctx, q.Embedded.opts.ActiveTTL/10, func() bool {
		q.peers.noteReached(q.etcd)
		return true
	})
}

// every runs do at once, and then again a pause after it has returned, until it returns
// false, ctx ends or etcd stops.
func (q *Quorum) every(ctx context.Context, pause time.Duration, do func() (goOn bool)) {
	timer := q.opts.Clock.NewTimer()
	defer timer.Stop()
	for do() {
		timer.Reset(pause)
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
		q.handOver()
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

// ErrNoPlace: the member has no place among the others yet.
var ErrNoPlace = errors.New("this server's member has not joined the others yet")

// noPlace is ErrNoPlace with what the member waits for.
func (q *Quorum) noPlace() error {
	if what := q.Waits(); what != "" {
		return fmt.Errorf("%w: it waits for %s", ErrNoPlace, what)
	}
	return ErrNoPlace
}

// bound is how long a request may take: a member that is cut off from the majority does
// not answer, and the tenure must learn it.
func (p place) bound(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := p.Err(); err != nil {
		return nil, nil, err
	}
	if !p.begun.Load() {
		return nil, nil, ErrNoPlace
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
	ctx, end := p.lead.within(ctx)
	defer end()
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
		return ErrNoPlace
	}
	return guarded{p.Embedded}.Compact(ctx, rev)
}

func (p place) Usage(ctx context.Context) (store.Usage, error) {
	if !p.begun.Load() {
		return store.Usage{}, ErrNoPlace
	}
	return guarded{p.Embedded}.Usage(ctx)
}
