package etcdstore

import (
	"context"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// answering answers with what it was given.
type answering struct {
	txn  *pb.TxnResponse
	page *pb.RangeResponse
}

func (a answering) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) { return a.txn, nil }

func (a answering) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return a.page, nil
}

// An answer that is none of etcd's ends in an error: not in a panic, and not in
// reading on for ever.
func TestMalformedRepliesAreErrors(t *testing.T) {
	page := func(more bool, keys ...string) *pb.RangeResponse {
		p := &pb.RangeResponse{More: more}
		for _, k := range keys {
			p.Kvs = append(p.Kvs, &mvccpb.KeyValue{Key: []byte(k)})
		}
		return p
	}
	for _, tc := range []struct {
		page *pb.RangeResponse
		said string
	}{
		{page(true, "b", "c"), ""},
		{page(false), ""},
		{page(true), "there are more"},
		{page(true, "a"), "out of its order"},
		{page(true, "d"), "out of its order"},
		{page(true, "c", "b"), "out of its order"},
		{page(true, "b", "b"), "out of its order"},
	} {
		_, err := kv{answering{page: tc.page}}.Range(t.Context(), kvlog.Query{From: "b", To: "d", Limit: 2})
		if (err == nil) != (tc.said == "") || err != nil && !strings.Contains(err.Error(), tc.said) {
			t.Errorf("%v: %v; %q was expected", tc.page, err, tc.said)
		}
	}
	for _, answers := range []int{0, 1, 3} {
		txn := &pb.TxnResponse{Responses: make([]*pb.ResponseOp, answers)}
		if _, err := (kv{answering{txn: txn}}).Txn(t.Context(), kvlog.Txn{Else: make([]kvlog.Op, 2)}); err == nil {
			t.Errorf("%d answers to 2 operations are taken", answers)
		}
	}
}
