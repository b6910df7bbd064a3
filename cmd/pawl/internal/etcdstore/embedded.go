package etcdstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// aloneName is the name of a member without others.
const aloneName = "pawl"

// QuotaDefault bounds the member's database, in bytes.
const QuotaDefault = 2 << 30

// learnersMax bounds the members that catch up at the same time. It decides which
// entries of the log take effect: it is the same for every member, and for all times.
const learnersMax = 6

func init() {
	// etcd reserves two segments at once; its 64 MB each are most of a fresh
	// folder and of the time to start.
	wal.SegmentSizeBytes = 8 << 20
}

// EmbeddedOptions of a member in this process. Dir and Clock are needed.
type EmbeddedOptions struct {
	// Dir is the data folder; made where it is missing.
	Dir string
	// Token makes a fresh member's cluster unlike any other: the cell's id; a
	// random one where it is empty. Not looked at where there is a member already.
	Token string
	// ActiveTTL sets the pace of looking after the folder; 0: 3 s.
	ActiveTTL time.Duration
	// Quota of the member's database in bytes; 0: QuotaDefault.
	Quota int64
	Clock clock.Clock
	// Logger for what an operator should know; nil: none.
	Logger *slog.Logger
	// Stderr takes the reason with which etcd ends the process; nil: os.Stderr.
	Stderr io.Writer
}

// Embedded is a store on a single etcd member inside this process, without a
// port. Its own last tenure is taken over at once: the folder's lock shows that
// no other server is at work on it.
type Embedded struct {
	*kvlog.Store

	opts   EmbeddedOptions
	folder *folder
	node   [16]byte
	etcd   *embed.Etcd
	server pb.KVServer
	// uncounted bytes were written since etcd's database was made to count them.
	uncounted atomic.Int64

	// whyStopped says why etcd stopped by itself.
	whyStopped func() error

	stop   context.CancelFunc
	upkeep sync.WaitGroup
	once   sync.Once
	closed error
	ending
}

var _ store.Store = (*Embedded)(nil)

// OpenEmbedded locks the folder and starts the member; it returns when the member
// answers. It returns ErrInUse when another server has the folder, store.ErrFull when
// less than FreeStart is free, store.ErrRolledBack when the member shows less than it
// had reached, and store.ErrDamaged when the folder does not hold what a member left
// there. If etcd ends the process itself while it reads the folder, the exit code is
// 65.
func OpenEmbedded(ctx context.Context, opts EmbeddedOptions) (_ *Embedded, err error) {
	opts = opts.withDefaults()
	e := newEmbedded(opts)
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the embedded store: %w", errors.Join(err, e.Close()))
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
	served, err := Formed(e.folder.dir)
	if err != nil {
		return nil, err
	}
	left := ""
	if served {
		left = e.folder.path("etcd")
		err = e.folder.inspect()
	} else {
		err = e.folder.form()
	}
	if err != nil {
		return nil, err
	}
	if err := e.start(ctx, left); err != nil {
		return nil, err
	}
	if err := e.folder.formed(); err != nil {
		return nil, err
	}
	e.server = v3rpc.NewQuotaKVServer(e.etcd.Server)
	e.Store = kvlog.New(guarded{e}, kvlog.Options{
		Clock: opts.Clock, ActiveTTL: opts.ActiveTTL, Sole: true, Logger: opts.Logger,
	})
	reached, err := e.reached(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.folder.checkSeen(reached); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.upkeep.Go(func() { e.maintain(running, reached) })
	e.upkeep.Go(func() { e.laySegments(running) })
	return e, nil
}

func newEmbedded(opts EmbeddedOptions) *Embedded {
	return &Embedded{
		opts: opts, stop: func() {}, ending: ending{log: opts.Logger, done: make(chan struct{})},
		whyStopped: func() error { return errors.New("etcd stopped by itself") },
	}
}

func (o EmbeddedOptions) withDefaults() EmbeddedOptions {
	if o.ActiveTTL <= 0 {
		o.ActiveTTL = store.ActiveTTLDefault
	}
	if o.Token == "" {
		// Without a token every fresh member is of the same cluster.
		o.Token = rand.Text()
	}
	if o.Quota <= 0 {
		o.Quota = QuotaDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	return o
}

// start runs the member and waits until it serves. left is as for launch.
func (e *Embedded) start(ctx context.Context, left string) error {
	if err := e.launch(left, inspectAlone, func(cfg *embed.Config) {
		cfg.Name = aloneName
		cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
		cfg.TickMs, cfg.ElectionMs = 10, 100
	}); err != nil {
		return err
	}
	return e.ready(ctx)
}

// launch runs the member. left is the member's folder if it has served before, and
// empty for a new one. An existing member that cannot read that folder fails as
// damaged. before, where there is one, looks at it first. as says which member of which cluster it is.
func (e *Embedded) launch(left string, before func(member string, words *zap.Logger) error, as func(*embed.Config)) error {
	cfg := embed.NewConfig()
	cfg.Dir = e.folder.path("etcd")
	cfg.InitialClusterToken = e.opts.Token
	cfg.ListenClientUrls, cfg.ListenPeerUrls, cfg.AdvertiseClientUrls = nil, nil, nil
	cfg.MaxLearners = learnersMax
	as(cfg)
	// The entries between are kept in memory, up to store.BatchMax each.
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 1000, 100
	// What was acknowledged is in etcd's log. Its database may follow later: a
	// start reads the rest from the log.
	cfg.BackendBatchInterval = time.Second
	cfg.QuotaBackendBytes = e.opts.Quota
	words := newLastWords(e.opts.Stderr)
	if left != "" {
		words.reads.Store(&left)
		defer words.reads.Store(nil)
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(words))
	member, err := startEtcd(cfg, func() error {
		if left == "" || before == nil {
			return nil
		}
		return before(filepath.Join(cfg.Dir, "member"), zap.New(words))
	})
	if left != "" && unreadable(err) && !errors.Is(err, store.ErrDamaged) {
		err = fmt.Errorf("%w: %s: %w; %s", store.ErrDamaged, left, err, mendFolder)
	}
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	e.etcd = member
	return nil
}

// errPanic: etcd panicked on what it read.
var errPanic = errors.New("etcd cannot read it")

func startEtcd(cfg *embed.Config, before func() error) (_ *embed.Etcd, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	if err := before(); err != nil {
		return nil, err
	}
	return embed.StartEtcd(cfg)
}

// unreadable reports whether etcd's log has a record that cannot be read or was
// changed, or lacks a part. An end that is cut short does not count: etcd takes it for
// a write that a crash interrupted, and checkSeen knows how far the log reached.
func unreadable(err error) bool {
	for _, damaged := range []error{
		wal.ErrCRCMismatch, wal.ErrFileNotFound, wal.ErrSnapshotNotFound, wal.ErrSnapshotMismatch, wal.ErrSliceOutOfRange,
		wal.ErrMetadataConflict, wal.ErrDecoderNotFound, snap.ErrNoDBSnapshot, proto.Error, io.ErrUnexpectedEOF, errPanic,
	} {
		if errors.Is(err, damaged) {
			return true
		}
	}
	return false
}

// slowStart is after how long an operator is told that the member is not ready.
const slowStart = 5 * time.Second

func (e *Embedded) ready(ctx context.Context) error {
	timer := e.opts.Clock.NewTimer()
	defer timer.Stop()
	for {
		timer.Reset(slowStart)
		select {
		case <-e.etcd.Server.ReadyNotify():
			return nil
		case <-e.etcd.Server.StopNotify():
			return errors.New("start etcd: it stopped before it served")
		case <-ctx.Done():
			return fmt.Errorf("start etcd: %w", context.Cause(ctx))
		case <-timer.C():
			e.opts.Logger.Warn("etcd is not ready yet", "folder", e.folder.path("etcd"))
		}
	}
}

// reached reads how far the member is.
func (e *Embedded) reached(ctx context.Context) (kvlog.Seen, error) {
	page, err := kv{e.server}.Range(ctx, kvlog.Query{From: "\x00", To: "\x01", Limit: 1, KeysOnly: true})
	return page.Seen, err
}

// NodeID is this node's id, drawn once and kept in the folder.
func (e *Embedded) NodeID() [16]byte { return e.node }

// Close stops the member and gives the folder back.
func (e *Embedded) Close() error {
	e.once.Do(func() {
		e.stop()
		e.upkeep.Wait()
		if e.Store != nil {
			e.Store.Close()
		}
		if e.etcd != nil {
			e.etcd.Close()
		}
		if e.folder != nil {
			e.closed = errors.Join(e.closed, e.folder.unlock())
		}
	})
	return e.closed
}

// guarded is the member as long as the folder is its own.
type guarded struct{ *Embedded }

func (g guarded) Txn(ctx context.Context, t kvlog.Txn) (kvlog.Result, error) {
	if err := g.Err(); err != nil {
		return kvlog.Result{}, err
	}
	res, err := kv{g.server}.Txn(ctx, t)
	g.wrote(t)
	return res, errors.Join(err, g.Err())
}

func (g guarded) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	if err := g.Err(); err != nil {
		return kvlog.Page{}, err
	}
	page, err := kv{g.server}.Range(ctx, q)
	return page, errors.Join(err, g.Err())
}

func (g guarded) Compact(ctx context.Context, rev int64) error {
	if err := g.Err(); err != nil {
		return err
	}
	return g.compact(ctx, rev)
}

func (g guarded) Usage(context.Context) (store.Usage, error) { return g.usage() }
