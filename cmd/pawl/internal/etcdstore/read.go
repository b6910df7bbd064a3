package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// Found is one key of a cell, and what there is to say about it.
type Found = kvlog.Found

// Reader reads a cell's data beside the server that serves it, and writes nothing.
type Reader struct {
	kv     kvlog.KV
	prefix string
	close  func() error
}

// Inspect visits every key of the cell, see kvlog.Inspect.
func (r *Reader) Inspect(ctx context.Context, visit func(Found) error) error {
	return kvlog.Inspect(ctx, r.kv, r.prefix, visit)
}

// Close ends it.
func (r *Reader) Close() error { return r.close() }

// readPatience is how long a member may take to answer a reader.
const readPatience = 5 * time.Second

// ReadExternal reads a cell in somebody's etcd. Of opts it uses Endpoints,
// Prefix, TLS, User and Password.
func ReadExternal(opts ExternalOptions) (*Reader, error) {
	m, err := dial(opts.Endpoints, opts.TLS, readPatience)
	if err != nil {
		return nil, err
	}
	m.login = newLogin(opts.User, opts.Password)
	return &Reader{kv: reading{kv{m}}, prefix: opts.Prefix, close: m.close}, nil
}

// ErrNoCell: there is no cell in the folder.
var ErrNoCell = errors.New("no cell")

// ReadEmbedded reads the cell in the data folder of a server that does not run. A
// member writes to its folder when it starts, so ReadEmbedded works on a temporary
// copy, which needs as much room. It returns ErrInUse when a server runs on the folder,
// ErrNoCell when the folder holds no cell, and store.ErrDamaged as [OpenEmbedded] does.
func ReadEmbedded(ctx context.Context, dir string, clk clock.Clock) (_ *Reader, err error) {
	formed, err := Formed(dir)
	if err == nil && !formed {
		err = fmt.Errorf("%w is in %s", ErrNoCell, dir)
	}
	if err != nil {
		return nil, err
	}
	original, err := openFolder(ctx, dir, 0, clk)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, original.unlock()) }()
	if err := original.inspect(); err != nil {
		return nil, err
	}
	copied, err := os.MkdirTemp("", "pawl-read-")
	if err != nil {
		return nil, err
	}
	e := &Embedded{opts: EmbeddedOptions{Clock: clk}.withDefaults(), folder: &folder{dir: copied}}
	end := func() error {
		if e.etcd != nil {
			e.etcd.Close()
		}
		return os.RemoveAll(copied)
	}
	if err = os.CopyFS(e.folder.path("etcd"), os.DirFS(filepath.Join(dir, "etcd"))); err == nil {
		err = e.start(ctx, original.path("etcd"))
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return &Reader{kv: reading{kv{v3rpc.NewQuotaKVServer(e.etcd.Server)}}, close: end}, nil
}

// reading refuses everything that writes.
type reading struct{ kv }

func (r reading) Txn(ctx context.Context, t kvlog.Txn) (kvlog.Result, error) {
	if t.Writes() {
		panic("etcdstore: a reader writes")
	}
	return r.kv.Txn(ctx, t)
}

func (reading) Compact(context.Context, int64) error       { panic("etcdstore: a reader compacts") }
func (reading) Usage(context.Context) (store.Usage, error) { return store.Usage{}, nil }
