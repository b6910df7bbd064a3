package etcdstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"

	"github.com/pawlproject/pawl/internal/testwait"
)

// Each of three servers is told to remove the next, at the same moment, again and again.
// Whatever is carried out, those that are left take writes: etcd changes one member at a
// time, and none whose loss the others would not stand.
func TestRemovalsAtOnceLeaveAMajority(t *testing.T) {
	all := foundQuorum(t, 3)
	removed := 0
	testwait.Until(t, bound, "a member is removed", func() bool {
		var mu sync.Mutex
		var calls sync.WaitGroup
		for i, q := range all {
			other := all[(i+1)%len(all)].opts.Node
			calls.Go(func() {
				err := q.RemoveMember(t.Context(), other)
				t.Logf("%s removes %s: %v", q.opts.Node, other, err)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					removed++
				}
			})
		}
		calls.Wait()
		return removed > 0
	})
	if removed == len(all) {
		t.Error("all members are removed")
	}
	testwait.Until(t, bound, "a member that is left takes writes", func() bool {
		for _, q := range all {
			if isRemoved(q.etcd, uint64(q.etcd.Server.MemberID())) {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), askMax)
			_, err := q.etcd.Server.Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: []byte("v")})
			if cancel(); err == nil {
				return true
			}
		}
		return false
	})
}

// An empty server that has moved is told how an operator lets it join at its new address:
// another way for one that is still a member.
func TestMovedJoinerIsToldHow(t *testing.T) {
	q := foundQuorum(t, 1)[0]
	if err := q.AddMember(t.Context(), "n2", "http://127.0.0.1:1", ""); err != nil {
		t.Fatal(err)
	}
	for name, how := range map[string]string{
		"n1": "pawl member replace n1 n1=http://127.0.0.1:2", "n2": "pawl member add n2=http://127.0.0.1:2",
	} {
		_, err := q.peers.letIn(t.Context(), q.etcd, joining{Name: name, URL: "http://127.0.0.1:2"})
		if err == nil || errors.Is(err, errNotNow) || !strings.HasSuffix(err.Error(), how) {
			t.Errorf("%s at another address: %v, expected %q", name, err, how)
		}
	}
	if err := q.AddMember(t.Context(), "n2", "http://127.0.0.1:2", ""); err != nil {
		t.Fatal(err)
	}
	// Nobody answers there; it is not refused any more.
	if _, err := q.peers.letIn(t.Context(), q.etcd, joining{Name: "n2", URL: "http://127.0.0.1:2"}); !errors.Is(err, errNotNow) {
		t.Errorf("n2 where it is expected now: %v", err)
	}
}

// A change whose outcome is unknown is not told as refused.
func TestChangeThatIsLateIsUnknown(t *testing.T) {
	for _, late := range []error{context.DeadlineExceeded, etcderrors.ErrTimeout, etcderrors.ErrTimeoutDueToLeaderFail, etcderrors.ErrTimeoutDueToConnectionLost} {
		if err := unsure(late); err == nil || errors.Is(err, ErrNoMajority) || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("%v is told as %v", late, err)
		}
	}
	refused := errors.New("refused")
	for _, other := range []error{nil, refused} {
		if err := unsure(other); !errors.Is(err, other) {
			t.Errorf("%v is told as %v", other, err)
		}
	}
}
