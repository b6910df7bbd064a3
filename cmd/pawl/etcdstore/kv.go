package etcdstore

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// kv speaks to etcd through a client.
type kv struct {
	client clientv3.KV
	usage  func(context.Context) (store.Usage, error)
}

var _ kvlog.KV = (*kv)(nil)

func (k *kv) Txn(ctx context.Context, t kvlog.Txn) (kvlog.Result, error) {
	res, err := k.client.Txn(ctx).If(conds(t.If)...).Then(ops(t.Then)...).Else(ops(t.Else)...).Commit()
	if err != nil {
		return kvlog.Result{}, fmt.Errorf("%s: %w", t.What, translate(err))
	}
	out := kvlog.Result{OK: res.Succeeded, Seen: seen(res.Header)}
	branch := t.Else
	if res.Succeeded {
		branch = t.Then
	}
	for i, op := range branch {
		if op.Kind != kvlog.OpGet {
			continue
		}
		p := kvlog.Pair{Key: op.Key}
		if kvs := res.Responses[i].GetResponseRange().GetKvs(); len(kvs) == 1 {
			p = pair(kvs[0])
		}
		out.Gets = append(out.Gets, p)
	}
	return out, nil
}

func (k *kv) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	opts := []clientv3.OpOption{clientv3.WithRange(q.To), clientv3.WithLimit(int64(q.Limit)), clientv3.WithRev(q.Rev)}
	if q.KeysOnly {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	res, err := k.client.Get(ctx, q.From, opts...)
	if err != nil {
		return kvlog.Page{}, fmt.Errorf("read from %s: %w", q.From, translate(err))
	}
	page := kvlog.Page{More: res.More, Seen: seen(res.Header)}
	for _, found := range res.Kvs {
		page.Pairs = append(page.Pairs, pair(found))
	}
	return page, nil
}

// Compact returns when the room is free again, so that the use read next shows
// it.
func (k *kv) Compact(ctx context.Context, rev int64) error {
	if _, err := k.client.Compact(ctx, rev, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact up to revision %d: %w", rev, translate(err))
	}
	return nil
}

func (k *kv) Usage(ctx context.Context) (store.Usage, error) { return k.usage(ctx) }

func conds(in []kvlog.Cond) []clientv3.Cmp {
	out := make([]clientv3.Cmp, len(in))
	for i, c := range in {
		if c.Value != nil {
			out[i] = clientv3.Compare(clientv3.Value(c.Key), "=", string(c.Value))
		} else {
			out[i] = clientv3.Compare(clientv3.ModRevision(c.Key), "=", c.Rev)
		}
		if c.End != "" {
			out[i] = out[i].WithRange(c.End)
		}
	}
	return out
}

func ops(in []kvlog.Op) []clientv3.Op {
	out := make([]clientv3.Op, len(in))
	for i, op := range in {
		switch op.Kind {
		case kvlog.OpPut:
			out[i] = clientv3.OpPut(op.Key, string(op.Value))
		case kvlog.OpDelete:
			out[i] = clientv3.OpDelete(op.Key, clientv3.WithRange(op.End))
		default:
			out[i] = clientv3.OpGet(op.Key)
		}
	}
	return out
}

func pair(found *mvccpb.KeyValue) kvlog.Pair {
	return kvlog.Pair{Key: string(found.Key), Value: found.Value, Rev: found.ModRevision}
}

func seen(h *pb.ResponseHeader) kvlog.Seen {
	return kvlog.Seen{Rev: h.GetRevision(), Cluster: h.GetClusterId()}
}

// translate names what the seam has a name for. In the process errors come as
// gRPC statuses, over the network as the client's.
func translate(err error) error {
	if known := rpctypes.Error(err); errors.Is(known, rpctypes.ErrNoSpace) {
		return fmt.Errorf("%w: %w", store.ErrFull, known)
	}
	return err
}
