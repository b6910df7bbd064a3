package etcdstore

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// service is the part of etcd's service that a log needs: a member's own inside
// this process, or a cluster over the network.
type service interface {
	Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error)
	Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error)
}

// kv makes etcd's requests of ours. The client library's builders would only
// make the same.
type kv struct{ server service }

func (k kv) Txn(ctx context.Context, t kvlog.Txn) (kvlog.Result, error) {
	res, err := k.server.Txn(ctx, &pb.TxnRequest{
		Compare: compares(t.If), Success: requests(t.Then), Failure: requests(t.Else),
	})
	if err != nil {
		return kvlog.Result{}, fmt.Errorf("%s: %w", t.What, translate(err))
	}
	out := kvlog.Result{OK: res.Succeeded, Seen: seen(res.Header)}
	branch := t.Else
	if res.Succeeded {
		branch = t.Then
	}
	if len(res.Responses) != len(branch) {
		return kvlog.Result{}, fmt.Errorf("%s: etcd answers %d of %d operations", t.What, len(res.Responses), len(branch))
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

func (k kv) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	res, err := k.server.Range(ctx, &pb.RangeRequest{
		Key: []byte(q.From), RangeEnd: []byte(q.To), Limit: int64(q.Limit), Revision: q.Rev, KeysOnly: q.KeysOnly,
	})
	if err != nil {
		return kvlog.Page{}, fmt.Errorf("read from %s: %w", q.From, translate(err))
	}
	page := kvlog.Page{More: res.More, Seen: seen(res.Header)}
	// The next page begins behind the last key: keys that do not rise would be read for
	// ever.
	last := ""
	for i, found := range res.Kvs {
		p := pair(found)
		if p.Key < q.From || p.Key >= q.To || i > 0 && p.Key <= last {
			return kvlog.Page{}, fmt.Errorf("read from %s: etcd answers with the key %.80q, out of its order", q.From, p.Key)
		}
		page.Pairs, last = append(page.Pairs, p), p.Key
	}
	if page.More && len(page.Pairs) == 0 {
		return kvlog.Page{}, fmt.Errorf("read from %s: etcd answers with no key and says that there are more", q.From)
	}
	return page, nil
}

func compares(in []kvlog.Cond) []*pb.Compare {
	out := make([]*pb.Compare, len(in))
	for i, c := range in {
		out[i] = &pb.Compare{Key: []byte(c.Key), Result: pb.Compare_EQUAL}
		if c.Value != nil {
			out[i].Target, out[i].TargetUnion = pb.Compare_VALUE, &pb.Compare_Value{Value: c.Value}
		} else {
			out[i].Target, out[i].TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: c.Rev}
		}
		if c.End != "" {
			out[i].RangeEnd = []byte(c.End)
		}
	}
	return out
}

func requests(in []kvlog.Op) []*pb.RequestOp {
	out := make([]*pb.RequestOp, len(in))
	for i, op := range in {
		key := []byte(op.Key)
		switch op.Kind {
		case kvlog.OpPut:
			out[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: op.Value}}}
		case kvlog.OpDelete:
			out[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
				RequestDeleteRange: &pb.DeleteRangeRequest{Key: key, RangeEnd: []byte(op.End)},
			}}
		default:
			out[i] = &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}
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

// etcdError is the one of etcd's own errors that err holds, or err. In the
// process they come as gRPC statuses without, over the network with a wire.
func etcdError(err error) error {
	var held interface{ GRPCStatus() *status.Status }
	if errors.As(err, &held) {
		return rpctypes.Error(held.GRPCStatus().Err())
	}
	return err
}

// translate names what the seam has a name for.
func translate(err error) error {
	if known := etcdError(err); errors.Is(known, rpctypes.ErrNoSpace) {
		return fmt.Errorf("%w: %w", store.ErrFull, known)
	}
	return err
}
