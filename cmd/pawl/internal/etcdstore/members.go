package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// member is one endpoint of the cluster.
type member struct {
	address string
	// tls is nil where connections are plain.
	tls  *tls.Config
	conn *grpc.ClientConn
	kv   pb.KVClient
	care pb.MaintenanceClient
}

// members is a client's view of a cluster. Requests go to one member, the leader if it
// is known, until it fails or is too slow; then to the next.
//
// etcd's client library spreads requests over all its endpoints. It leaves a stopped
// one only after a keepalive of ten seconds or more, since neither gRPC nor etcd lets a
// client ask more often. So members has a connection to each member and bounds every
// request itself. It never sends a write twice. Its caller does, and may, since a write
// of kvlog does no harm when it lands again.
type members struct {
	all   []*member
	login *login
	// patience is how long a small request may take while all is well.
	patience time.Duration

	current atomic.Int64
	// slow counts the requests in a row that took too long.
	slow atomic.Int64
}

const (
	// doublings bounds how far patience grows when nobody is quick enough.
	doublings = 5
	// byteRate is the least rate at which a large request is expected to go
	// through, in bytes per second.
	byteRate = 1 << 20
)

// limit is how long a request of this many bytes may take.
func (m *members) limit(bytes int) time.Duration {
	grown := min(m.slow.Load()/int64(len(m.all)), doublings)
	return m.patience<<grown + time.Duration(bytes)*time.Second/byteRate
}

// choose returns the member to ask: the present one, unless it is known to be
// unreachable and another is known to be there.
func (m *members) choose() int64 {
	now := m.current.Load()
	if m.all[now].conn.GetState() != connectivity.TransientFailure {
		return now
	}
	for i := range int64(len(m.all)) {
		if m.all[i].conn.GetState() == connectivity.Ready && m.current.CompareAndSwap(now, i) {
			return i
		}
	}
	return now
}

// switchFrom makes the next member the present one, unless somebody else has.
func (m *members) switchFrom(from int64) {
	m.current.CompareAndSwap(from, (from+1)%int64(len(m.all)))
}

// ask sends one request to one member. Only a request that was refused for a
// token out of date, which did nothing, is sent again, with a new one.
func ask[R any](ctx context.Context, m *members, limit time.Duration, send func(context.Context, *member) (R, error)) (R, error) {
	at := m.choose()
	for fresh := false; ; fresh = true {
		res, token, err := once(ctx, m, m.all[at], limit, send)
		switch {
		case err == nil:
			m.slow.Store(0)
			return res, nil
		case !fresh && m.login.stale(token, err):
			continue
		case ctx.Err() == nil && status.Code(err) == codes.DeadlineExceeded:
			m.slow.Add(1)
		}
		if moves(err) {
			m.switchFrom(at)
		}
		return res, err
	}
}

func once[R any](ctx context.Context, m *members, to *member, limit time.Duration, send func(context.Context, *member) (R, error)) (res R, token string, err error) {
	ctx, done := context.WithTimeout(ctx, limit)
	defer done()
	// A member that knows no leader says so at once.
	md := []string{rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader}
	if token, err = m.login.token(ctx, to); err != nil {
		return res, token, err
	}
	if token != "" {
		md = append(md, rpctypes.TokenFieldNameGRPC, token)
	}
	res, err = send(metadata.AppendToOutgoingContext(ctx, md...), to)
	return res, token, describeError(to.address, err)
}

// moves reports whether another member may do better.
func moves(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.OutOfRange,
		codes.FailedPrecondition, codes.NotFound:
		return false
	}
	return !errors.Is(etcdError(err), rpctypes.ErrNoSpace)
}

func (m *members) close() error {
	var err error
	for _, one := range m.all {
		err = errors.Join(err, one.conn.Close())
	}
	return err
}

// answerMax bounds an answer, in bytes: a page of the largest batches, and of the
// largest values that an etcd takes where nobody set another limit.
const answerMax = 256 << 20

var answered = grpc.MaxCallRecvMsgSize(answerMax)

// Txn implements service.
func (m *members) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return ask(ctx, m, m.limit(sizeOf(r)), func(ctx context.Context, to *member) (*pb.TxnResponse, error) {
		return to.kv.Txn(ctx, r, answered)
	})
}

// Range implements service. It reads, so it may ask again: a page that takes
// long because it is large must come through in the end.
func (m *members) Range(ctx context.Context, r *pb.RangeRequest) (res *pb.RangeResponse, err error) {
	for try := range doublings + 1 {
		res, err = ask(ctx, m, m.limit(0)<<try, func(ctx context.Context, to *member) (*pb.RangeResponse, error) {
			return to.kv.Range(ctx, r, answered)
		})
		if err == nil || ctx.Err() != nil || status.Code(err) != codes.DeadlineExceeded {
			return res, err
		}
	}
	return res, err
}

func sizeOf(r *pb.TxnRequest) (bytes int) {
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range branch {
			bytes += len(op.GetRequestPut().GetValue())
		}
	}
	return bytes
}
