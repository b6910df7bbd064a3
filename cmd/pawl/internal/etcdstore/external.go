package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

var (
	// ErrRefused: the cluster answered and lets this server do nothing: a wrong
	// password, missing rights, a certificate that does not fit.
	ErrRefused = errors.New("etcd refuses this server")
	// ErrRequestLimit: the cluster takes no requests as large as batches may be.
	ErrRequestLimit = errors.New("etcd's limit on requests is too low")
	// ErrFiles: a file for TLS, or the one with the password, does not hold what
	// it should.
	ErrFiles = errors.New("a file for etcd cannot be used")
)

// PrefixMax bounds what the user says that keys begin with, in bytes.
const PrefixMax = 512

// ExternalOptions of a cell in somebody's etcd cluster. Dir, Endpoints, Prefix
// and Clock are needed.
type ExternalOptions struct {
	// Dir is the data folder: it holds this node's id and what the cluster is
	// known to have reached. Two servers need two.
	Dir string
	// Endpoints of the members, as ParseEndpoint takes them.
	Endpoints []string
	// Prefix of every key of the cell; it ends with '/'.
	Prefix string
	TLS    TLS
	// User logs in with a password, asked for each time; empty: nobody does.
	User     string
	Password func() (string, error)
	// ActiveTTL; 0: 3 s. A third of it is how long a member may take to answer
	// before another is asked.
	ActiveTTL time.Duration
	Clock     clock.Clock
	// Logger for what an operator should know; nil: none.
	Logger *slog.Logger
}

// External is a store under a prefix of an etcd cluster that others run and
// may share. It never writes, deletes or reads outside of the prefix, and never
// compacts, defragments or disarms.
type External struct {
	*kvlog.Store

	opts   ExternalOptions
	folder *folder
	node   [16]byte
	*members
	ending

	stop   context.CancelFunc
	upkeep sync.WaitGroup
	once   sync.Once
	closed error

	// verified: the cluster is the one it was and takes what a cell needs. Nothing
	// is done on it before.
	verified atomic.Bool
	// reached is the newest state that an answer showed.
	reached atomic.Pointer[kvlog.Seen]
	// full: the last write was refused for want of room.
	full atomic.Bool
	// usage as it was looked at last.
	usage atomic.Pointer[store.Usage]
	// surveyed is how each member answered then.
	surveyed atomic.Pointer[[]EndpointHealth]
}

var _ store.Store = (*External)(nil)

// OpenExternal locks the data folder and checks whether the cluster accepts what a cell
// needs. A cluster that does not answer is no error: it may come up, and is tried
// again. OpenExternal returns ErrInUse when another server has the folder, ErrRefused
// or ErrRequestLimit when the cluster must be configured first, ErrFiles when a file
// here must be mended, and store.ErrRolledBack when the cluster shows less than it had
// reached, or is another one.
func OpenExternal(ctx context.Context, opts ExternalOptions) (_ *External, err error) {
	if opts.ActiveTTL <= 0 {
		opts.ActiveTTL = store.ActiveTTLDefault
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	e := &External{opts: opts, stop: func() {}, ending: ending{log: opts.Logger, done: make(chan struct{})}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the store in etcd: %w", errors.Join(err, e.Close()))
		}
	}()
	if !strings.HasSuffix(opts.Prefix, "/") {
		return nil, fmt.Errorf("the prefix %q does not end with '/'", opts.Prefix)
	}
	if e.folder, err = openFolder(ctx, opts.Dir, 0, opts.Clock); err != nil {
		return nil, err
	}
	e.folder.warnOpen(opts.Logger)
	if e.node, err = e.folder.nodeID(); err != nil {
		return nil, err
	}
	if e.members, err = dial(opts.Endpoints, opts.TLS, opts.ActiveTTL/3); err != nil {
		return nil, err
	}
	e.login = newLogin(opts.User, opts.Password)
	e.usage.Store(&store.Usage{})
	e.Store = kvlog.New(tenant{e}, kvlog.Options{
		Clock: opts.Clock, Prefix: opts.Prefix, ActiveTTL: opts.ActiveTTL, Logger: opts.Logger,
		// The folder's lock shows it.
		Resumes: true,
	})
	look := newMonitor(e)
	err = look.first(ctx)
	switch {
	case err == nil:
	case definite(err):
		return nil, err
	default:
		opts.Logger.Warn("etcd does not answer; trying on", "error", err)
	}
	running, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.upkeep.Go(func() { look.after(running) })
	return e, nil
}

// definite reports an error that waiting does not mend.
func definite(err error) bool {
	return errors.Is(err, ErrRefused) || errors.Is(err, ErrRequestLimit) || errors.Is(err, ErrFiles) ||
		errors.Is(err, store.ErrRolledBack)
}

// NodeID is this node's id, drawn once and kept in the folder.
func (e *External) NodeID() [16]byte { return e.node }

// HasCell reports whether there is a cell below the prefix.
func (e *External) HasCell(ctx context.Context) (bool, error) {
	keys := kvlog.Keys{Prefix: e.opts.Prefix}
	res, err := tenant{e}.Txn(ctx, kvlog.Txn{What: kvlog.WhatRead, Then: []kvlog.Op{{Key: keys.Tenure()}, {Key: keys.Snapshot()}}})
	if err != nil || res.Gets[0].Rev != 0 || res.Gets[1].Rev != 0 {
		return err == nil, err
	}
	page, err := tenant{e}.Range(ctx, kvlog.Query{From: keys.Log(0), To: keys.LogEnd(), Limit: 1, KeysOnly: true})
	return len(page.Pairs) > 0, err
}

// Close hangs up and gives the folder back. The cell in the cluster is as it is.
func (e *External) Close() error {
	e.once.Do(func() {
		e.stop()
		e.upkeep.Wait()
		if e.Store != nil {
			e.Store.Close()
		}
		if e.members != nil {
			e.closed = e.members.close()
		}
		if e.folder != nil {
			e.closed = errors.Join(e.closed, e.folder.unlock())
		}
	})
	return e.closed
}

// tenant is the cluster as the cell may use it.
type tenant struct{ *External }

// errUnsettled: nothing is known about the cluster yet.
var errUnsettled = errors.New("etcd has not answered yet")

func (t tenant) usable() error {
	if !t.verified.Load() {
		return errors.Join(t.Err(), errUnsettled)
	}
	return t.Err()
}

func (t tenant) Txn(ctx context.Context, txn kvlog.Txn) (kvlog.Result, error) {
	if err := t.usable(); err != nil {
		return kvlog.Result{}, err
	}
	res, err := kv{t.members}.Txn(ctx, txn)
	if err == nil {
		t.note(res.Seen)
	}
	if txn.Writes() {
		t.wrote(txn, err)
	}
	return res, t.refused(err)
}

func (t tenant) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	if err := t.usable(); err != nil {
		return kvlog.Page{}, err
	}
	page, err := kv{t.members}.Range(ctx, q)
	if err == nil {
		t.note(page.Seen)
	}
	return page, t.refused(err)
}

// Compact does nothing: the past of a cluster that others use is theirs.
func (tenant) Compact(context.Context, int64) error { return nil }

// Usage is what was looked at last: a cluster is not asked at each question.
func (t tenant) Usage(context.Context) (store.Usage, error) {
	u := *t.usage.Load()
	u.Full = u.Full || t.full.Load()
	return u, nil
}

func (t tenant) note(seen kvlog.Seen) {
	for {
		was := t.reached.Load()
		if was != nil && (was.Cluster != seen.Cluster || was.Rev >= seen.Rev) {
			return
		}
		if t.reached.CompareAndSwap(was, &seen) {
			return
		}
	}
}

// wrote takes in how a write ended.
func (t tenant) wrote(txn kvlog.Txn, err error) {
	switch {
	case err == nil, errors.Is(err, store.ErrFull):
		if full := err != nil; t.full.Swap(full) != full {
			t.log.Warn("etcd's quota alarm", "raised", full)
		}
	case tooLarge(err):
		// No later try of the same batch can do better.
		t.fail(fmt.Errorf("%w: it refused a request of kind %q; raise --max-request-bytes of every member: %w", ErrRequestLimit, txn.What, err))
	}
}

// tooLarge reports that a request was refused for its size, by etcd or by gRPC
// before it.
func tooLarge(err error) bool {
	return errors.Is(etcdError(err), rpctypes.ErrRequestTooLarge) ||
		status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}

// aboutTLS reports that one side does not trust the other. It reads gRPC's text: what
// is told to an operator may leave that out.
func aboutTLS(err error) bool {
	text := err.Error()
	if t, ok := errors.AsType[*memberError](err); ok {
		text = t.err.Error()
	}
	return strings.Contains(text, "authentication handshake failed") || strings.Contains(text, "remote error: tls:")
}

// refused names what only an operator can change.
func (t tenant) refused(err error) error {
	if err == nil {
		return nil
	}
	switch known := etcdError(err); {
	case errors.Is(known, rpctypes.ErrPermissionDenied), errors.Is(known, rpctypes.ErrAuthFailed),
		errors.Is(known, rpctypes.ErrUserEmpty), errors.Is(known, rpctypes.ErrInvalidAuthToken):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case status.Code(err) == codes.Unavailable && aboutTLS(err):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
