package etcdstore

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/testwait"
)

// said keeps what is logged.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) contains(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), part)
}

// A folder with one member may be from before the cell had others: its server waits for
// those in --peers, and starts when they say that they are empty.
func TestQuorumOnlyMemberWaitsForSilentPeers(t *testing.T) {
	n1, n2 := memberOptions(t, "n1"), memberOptions(t, "n2")
	q := openMember(t, n1)
	hasPlace(t, q)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	_, address, _ := strings.Cut(n1.Peers[0].URL, "//")
	both := []Peer{n1.Peers[0], n2.Peers[0]}
	_, second, _ := strings.Cut(n2.Peers[0].URL, "//")
	_ = n2.Listener.Close()

	back := again(t, n1, address)
	words := new(said)
	back.Logger = slog.New(slog.NewTextHandler(words, nil))
	back.Peers = both
	q = openMember(t, back)
	testwait.Until(t, bound, "it says for whom it waits, or serves", func() bool { return words.contains("which only they can tell") || q.begun.Load() })
	if q.begun.Load() || q.Err() != nil {
		t.Fatalf("it does not wait: %v", q.Err())
	}
	n2 = again(t, n2, second)
	n2.Peers = both
	other := openMember(t, n2)
	hasPlace(t, q)
	hasPlace(t, other)
}

// An image of a server from before it had others, which serves alone, stops when one of
// them answers.
func TestQuorumOutgrownImageStops(t *testing.T) {
	o := memberOptions(t, "n1")
	q := openMember(t, o)
	hasPlace(t, q)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	image := memberOptions(t, "n1")
	if err := os.CopyFS(image.Dir, os.DirFS(o.Dir)); err != nil {
		t.Fatal(err)
	}
	_, address, _ := strings.Cut(o.Peers[0].URL, "//")
	q = openMember(t, again(t, o, address))
	hasPlace(t, q)
	n2 := memberOptions(t, "n2")
	if err := q.AddMember(t.Context(), "n2", n2.Peers[0].URL, ""); err != nil {
		t.Fatal(err)
	}
	n2.Peers = append(n2.Peers, o.Peers...)
	other := openMember(t, n2)
	hasPlace(t, other)

	old := openMember(t, image)
	hasPlace(t, old)
	w := new(watched)
	if err := old.look(t.Context(), w); err != nil {
		t.Fatalf("without others it stops: %v", err)
	}
	old.peers.mu.Lock()
	old.peers.more = []Peer{n2.Peers[0]}
	old.peers.mu.Unlock()
	testwait.Until(t, bound, "n2 goes further than the image", func() bool {
		if err := putExpected(t.Context(), q.etcd, expected{Name: "n9"}); err != nil {
			t.Fatal(err)
		}
		return other.etcd.Server.AppliedIndex() > old.etcd.Server.CommittedIndex()
	})
	if err := old.look(t.Context(), w); err != nil || !w.inDoubt {
		t.Errorf("one look is enough: %v, or none: in doubt %v", err, w.inDoubt)
	}
	if err := old.look(t.Context(), w); !errors.Is(err, store.ErrRolledBack) || !strings.Contains(err.Error(), "from before the cell had other members") {
		t.Errorf("the image goes on: %v", err)
	}
	w = new(watched)
	// It has gone further by itself; but another member leads the others.
	testwait.Until(t, bound, "n2 leads", func() bool {
		_ = q.etcd.Server.MoveLeader(t.Context(), q.Own(), other.Own()) // tried again
		return other.leads()
	})
	testwait.Until(t, bound, "the image goes further than n2", func() bool {
		if err := putExpected(t.Context(), old.etcd, expected{Name: "n9"}); err != nil {
			t.Fatal(err)
		}
		return old.etcd.Server.CommittedIndex() > other.etcd.Server.AppliedIndex()
	})
	if err := old.look(t.Context(), w); err != nil || !w.inDoubt {
		t.Errorf("one look is enough: %v, or none: in doubt %v", err, w.inDoubt)
	}
	w.doubted = w.doubted.Add(-doubtFor)
	if err := old.look(t.Context(), w); !errors.Is(err, store.ErrRolledBack) || !strings.Contains(err.Error(), "led by another one") {
		t.Errorf("the image goes on: %v", err)
	}
	for _, one := range []*Quorum{q, other} {
		if err := one.look(t.Context(), new(watched)); err != nil {
			t.Errorf("%s of two stops: %v", one.opts.Node, err)
		}
	}
}
