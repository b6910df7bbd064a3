package etcdstore

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/testwait"
)

// survivor is a folder with a member that holds one key, and what an earlier recovery
// kept.
func survivor(t *testing.T) EmbeddedOptions {
	t.Helper()
	o := EmbeddedOptions{Dir: t.TempDir(), ActiveTTL: idle, Clock: clock.System(), Stderr: io.Discard}
	e, err := OpenEmbedded(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.etcd.Server.Put(t.Context(), &pb.PutRequest{Key: []byte("tenure"), Value: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, o.Dir, "etcd/whose", "survivor")
	write(t, o.Dir, "etcd.lost/whose", "an earlier one")
	write(t, o.Dir, foundingMark, "")
	return o
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func recovery(t *testing.T, o EmbeddedOptions) *Recovery {
	t.Helper()
	r, err := OpenRecovery(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// crash ends a recovery where it is, as a kill does. What it had not closed is closed.
func crash(t *testing.T, r *Recovery) {
	t.Helper()
	r.began = false
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// isRecovered checks a folder whose recovery is done: the new member, with the key, is
// in its place, the survivor's is kept, and nothing is left over.
func isRecovered(t *testing.T, o EmbeddedOptions) {
	t.Helper()
	kept, err := os.ReadFile(filepath.Join(o.Dir, lostMember, "whose"))
	if err != nil || string(kept) != "survivor" {
		t.Errorf("kept is %q, %v; expected the survivor's member", kept, err)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "etcd/whose")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old member is in its place: %v", err)
	}
	e, err := OpenEmbedded(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	res, err := e.etcd.Server.Range(t.Context(), &pb.RangeRequest{Key: []byte("tenure")})
	if err != nil || len(res.Kvs) != 1 || string(res.Kvs[0].Value) != "old" {
		t.Errorf("the new member has %v, %v", res.GetKvs(), err)
	}
	for _, name := range []string{recovering, recovered, foundingMark} {
		if _, err := os.Stat(filepath.Join(o.Dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was left over: %v", name, err)
		}
	}
}

// A recovery that is interrupted after any step of its exchange is finished by the next
// one, and no server starts on the folder before the exchange is done.
func TestRecoveryGoesOnAfterEachStep(t *testing.T) {
	steps := len((*Recovery)(nil).steps())
	for done := 1; done <= steps; done++ {
		o := survivor(t)
		r := recovery(t, o)
		if err := r.Build(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, step := range r.steps()[:done] {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		crash(t, r)
		formed, err := Formed(o.Dir)
		if err != nil && strings.Contains(err.Error(), "as it was") {
			t.Errorf("after %d steps an operator is told to remove the new member: %v", done, err)
		}
		exchanged := done >= steps-1
		if formed != exchanged || errors.Is(err, store.ErrDamaged) == exchanged {
			t.Errorf("after %d steps a server finds a member: %v, %v", done, formed, err)
		}
		if done < steps {
			again := recovery(t, o)
			if !again.Built() {
				t.Fatalf("after %d steps the recovery begins anew", done)
			}
			if err := again.Finish(); err != nil {
				t.Fatalf("after %d steps: %v", done, err)
			}
			crash(t, again)
		}
		isRecovered(t, o)
	}
}

// One that is interrupted earlier begins anew, and the survivor's member is as it was.
func TestRecoveryBeginsAnew(t *testing.T) {
	for what, left := range map[string]func(*testing.T, EmbeddedOptions){
		"nothing yet":         func(t *testing.T, o EmbeddedOptions) { write(t, o.Dir, "recovering/source/x", "") },
		"a part of the copy":  func(t *testing.T, o EmbeddedOptions) { write(t, o.Dir, "recovering/source/etcd/member/wal/x", "") },
		"a new member, empty": func(t *testing.T, o EmbeddedOptions) { write(t, o.Dir, "recovering/new/etcd/member/wal/x", "") },
		"a new member that is whole": func(t *testing.T, o EmbeddedOptions) {
			r := recovery(t, o)
			if err := r.Build(t.Context()); err != nil {
				t.Fatal(err)
			}
			crash(t, r)
		},
	} {
		t.Run(what, func(t *testing.T) {
			o := survivor(t)
			left(t, o)
			if _, err := OpenEmbedded(t.Context(), o); !errors.Is(err, store.ErrDamaged) || !strings.HasSuffix(err.Error(), "to go on with the member as it was") {
				t.Fatalf("a server starts on it: %v", err)
			}
			r := recovery(t, o)
			if r.Built() {
				t.Fatal("only the exchange is taken to be left")
			}
			if err := errors.Join(r.Build(t.Context()), r.Finish()); err != nil {
				t.Fatal(err)
			}
			crash(t, r)
			isRecovered(t, o)
		})
	}
}

// What was left of a recovery that was done is removed by the next start of a server,
// and is no reason to begin anew.
func TestRecoveryLeftovers(t *testing.T) {
	o := survivor(t)
	r := recovery(t, o)
	if err := errors.Join(r.Build(t.Context()), r.Finish()); err != nil {
		t.Fatal(err)
	}
	crash(t, r)
	write(t, o.Dir, "recovered/source/x", "")
	if again := recovery(t, o); !again.Built() {
		t.Error("the recovery begins anew")
	} else {
		crash(t, again)
	}
	isRecovered(t, o)
}

// A member that was lost before it had received anything of the cell is not recovered:
// what would go on from there is another cell.
func TestRecoveryNeedsACell(t *testing.T) {
	o := EmbeddedOptions{Dir: t.TempDir(), ActiveTTL: idle, Clock: clock.System(), Stderr: io.Discard}
	e, err := OpenEmbedded(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	r := recovery(t, o)
	if err := r.Build(t.Context()); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a member without a cell is recovered: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if formed, err := Formed(o.Dir); !formed || err != nil {
		t.Errorf("after a recovery that failed the folder's member cannot start: %v, %v", formed, err)
	}
}

// A single server grows, and its disk is lost before the second one has its vote. The
// second one has the cell, as a learner, and is recovered as any other member.
func TestRecoveryOfALearner(t *testing.T) {
	q := foundQuorum(t, 1)[0]
	if _, err := q.etcd.Server.Put(t.Context(), &pb.PutRequest{Key: []byte("tenure"), Value: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	all := *q.peers.rest.Load()
	var noVotes http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/members/promote/") {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		all.ServeHTTP(w, r)
	})
	q.peers.rest.Store(&noVotes)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := Peer{"n2", "http://" + l.Addr().String()}
	if err := q.AddMember(t.Context(), own.Name, own.URL, ""); err != nil {
		t.Fatal(err)
	}
	o := EmbeddedOptions{Dir: t.TempDir(), ActiveTTL: idle, Clock: clock.System(), Stderr: io.Discard}
	second, err := OpenQuorum(t.Context(), QuorumOptions{EmbeddedOptions: o, Node: own.Name, Peers: []Peer{own, q.opts.Peers[0]}, Listener: l})
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "the second one has joined", func() bool {
		formed, err := Formed(o.Dir)
		return err == nil && formed
	})
	e := second.peers.etcd.Load()
	testwait.Until(t, bound, "the learner has the cell", func() bool {
		_, err := e.Server.Range(t.Context(), &pb.RangeRequest{Key: []byte("tenure"), Serializable: true})
		return err == nil && e.Server.AppliedIndex() >= q.etcd.Server.AppliedIndex()
	})
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if m := q.etcd.Server.Cluster().Member(e.Server.MemberID()); m == nil || !m.IsLearner {
		t.Fatalf("it has its vote: %v", m)
	}
	write(t, o.Dir, "etcd/whose", "survivor")
	r := recovery(t, o)
	if err := errors.Join(r.Build(t.Context()), r.Finish()); err != nil {
		t.Fatal(err)
	}
	crash(t, r)
	isRecovered(t, o)
}

// A survivor that was about to be removed, and has not applied it, is recovered with what
// its log has behind the removal.
func TestRecoveryOfOneAboutToBeRemoved(t *testing.T) {
	o := survivor(t)
	own := recovery(t, o)
	id := own.own
	crash(t, own)
	dir := filepath.Join(o.Dir, "etcd", "member", "wal")
	words := zap.NewNop()
	log, err := wal.Open(words, dir, &walpb.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	_, state, entries, err := log.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	last := entries[len(entries)-1]
	what, err := proto.Marshal(&raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: &id})
	if err != nil {
		t.Fatal(err)
	}
	removal := &raftpb.Entry{Type: raftpb.EntryConfChange.Enum(), Index: new(last.GetIndex() + 1), Term: new(last.GetTerm()), Data: what}
	var put *raftpb.Entry // the last write of the survivor, once more
	for _, e := range entries {
		if e.GetType() == raftpb.EntryNormal && len(e.GetData()) > 0 {
			put = &raftpb.Entry{Type: e.Type, Index: new(last.GetIndex() + 2), Term: new(last.GetTerm()), Data: e.GetData()}
		}
	}
	if err := errors.Join(log.Save(state, []*raftpb.Entry{removal, put}), log.Close()); err != nil {
		t.Fatal(err)
	}
	r := recovery(t, o)
	if err := r.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := r.Last; last != removal.GetIndex()+1 {
		t.Errorf("its log ends with entry %d", last)
	}
	if err := r.Finish(); err != nil {
		t.Fatal(err)
	}
	crash(t, r)
	isRecovered(t, o)
}

// Of a member that has applied its removal etcd makes no cluster: it is refused, and the
// folder is as it was.
func TestRecoveryOfARemovedMember(t *testing.T) {
	all := foundQuorum(t, 3)
	gone := all[2]
	testwait.Until(t, bound, "n3 is removed", func() bool { return all[0].RemoveMember(t.Context(), "n3") == nil })
	testwait.Until(t, bound, "n3 learns it", func() bool { return gone.Err() != nil })
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := OpenRecovery(t.Context(), EmbeddedOptions{Dir: gone.opts.Dir, Clock: clock.System(), Stderr: io.Discard})
	if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "was removed from the cluster") {
		t.Errorf("it is recovered: %v", err)
	}
	if formed, err := Formed(gone.opts.Dir); !formed || err != nil {
		t.Errorf("its folder has a member: %v, %v", formed, err)
	}
}
