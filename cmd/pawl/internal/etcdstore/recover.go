package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// A recovery builds its new member beside the old one, and then exchanges them:
//
//	recovering/source/   a copy of the survivor's member, forced to be alone
//	recovering/new/      a data folder with a new member of a new cluster
//	recovering/built     the new member is complete: only the exchange is left
//	etcd.lost/           the survivor's member, as it was
//	recovered/           what is to be removed: the exchange is done
//
// While recovering/ is there, no server starts on the folder. A recovery that was
// interrupted is run again: it begins anew, or finishes the exchange. One that fails
// before the mark, for want of room for instance, leaves the folder as it was. One that began
// anew after the exchange would take the new member for the survivor's, and remove the
// survivor's own. So recovering/ goes by one step, with its mark.
const (
	recovering = "recovering"
	built      = "built"
	lostMember = "etcd.lost"
	recovered  = "recovered"
)

// recoverPage is how many keys are copied at once.
const recoverPage = 64

// Recovery makes a new cluster of one out of a member whose others are lost.
type Recovery struct {
	folder *folder
	// Members are those of the lost cluster, and Last the last entry of the survivor's
	// log.
	Members []Peer
	Last    uint64
	// New is the new member's store, from Build until Finish; it holds the cell.
	New *Embedded

	opts EmbeddedOptions
	// began: Build has; done: the new member was complete before.
	began, done bool
	// own is the id of the survivor's member; learner, too, unless it is known to have
	// its vote.
	own, learner uint64
}

// OpenRecovery locks the folder of the survivor, and changes nothing in it. It returns
// ErrInUse when a server has it, and store.ErrDamaged as OpenEmbedded does.
func OpenRecovery(ctx context.Context, opts EmbeddedOptions) (_ *Recovery, err error) {
	opts = opts.withDefaults()
	r := &Recovery{opts: opts}
	if _, err := os.Stat(opts.Dir); err != nil {
		return nil, fmt.Errorf("look at the data folder: %w", err)
	}
	if r.folder, err = openFolder(ctx, opts.Dir, FreeStart, opts.Clock); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, mark := range []string{filepath.Join(recovering, built), recovered} {
		if r.done, err = r.folder.has(mark); err != nil || r.done {
			return r, err
		}
	}
	if there, err := r.folder.has("etcd"); err != nil || !there {
		return nil, errors.Join(err, fmt.Errorf("%w: %s holds no member", store.ErrDamaged, r.folder.dir))
	}
	if unformed, err := r.folder.has(forming); err != nil || unformed {
		return nil, errors.Join(err, fmt.Errorf("%w: the member in %s has never taken part, and holds nothing", store.ErrDamaged, r.folder.dir))
	}
	if err := r.folder.inspect(); err != nil {
		return nil, err
	}
	q := &Quorum{Embedded: &Embedded{opts: opts, folder: r.folder}}
	end, err := q.readEnd()
	if err != nil {
		return nil, err
	}
	if end.removed {
		// etcd makes no cluster of a member that was removed.
		return nil, fmt.Errorf("%w: the member in %s was removed from the cluster, and cannot be recovered; expected the folder of one that was not", store.ErrDamaged, r.folder.dir)
	}
	r.Last, r.own, r.learner = end.last, end.id, end.id
	slices.SortFunc(end.members, func(a, b memberShown) int { return strings.Compare(a.Name, b.Name) })
	for _, m := range end.members {
		r.Members = append(r.Members, Peer{Name: m.Name, URL: m.URL})
		if m.ID == end.id && !m.Learner {
			r.learner = 0
		}
	}
	return r, nil
}

// Built reports whether an earlier recovery was interrupted when its exchange was left,
// or done. Then Finish is all there is to do.
func (r *Recovery) Built() bool { return r.done }

// Build makes the new member and copies the cell into it. The survivor's member stays
// as it is: a copy of it is opened.
func (r *Recovery) Build(ctx context.Context) error {
	r.began = true
	if err := os.RemoveAll(r.folder.path(recovering)); err != nil {
		return fmt.Errorf("remove what an interrupted recovery left: %w", err)
	}
	source := r.folder.path(filepath.Join(recovering, "source"))
	if err := os.MkdirAll(source, 0o700); err != nil {
		return fmt.Errorf("copy the member: %w", err)
	}
	if err := os.CopyFS(filepath.Join(source, "etcd"), os.DirFS(r.folder.path("etcd"))); err != nil {
		return fmt.Errorf("copy the member: %w", err)
	}
	if err := commitAll(filepath.Join(source, "etcd", "member", "wal"), r.own, r.learner); err != nil {
		return fmt.Errorf("take up the end of the member's log: %w", err)
	}
	old, err := r.openSource(ctx, source)
	if err != nil {
		return fmt.Errorf("open a copy of the member: %w", errors.Join(err, old.Close()))
	}
	defer func() { _ = old.Close() }() // it is thrown away
	fresh := r.opts
	fresh.Dir, fresh.Token = r.folder.path(filepath.Join(recovering, "new")), ""
	fresh = fresh.withDefaults()
	if r.New, err = OpenEmbedded(ctx, fresh); err != nil {
		return err
	}
	return r.copy(ctx, old)
}

// commitAll marks every entry of a log as committed. A member learns late what is, and
// does not write that down each time; etcd would drop the rest, and with it what was
// acknowledged. What was not, and takes effect by this, was an unknown write.
//
// A removal of the own member, which no other one is left to know of, becomes an entry
// without effect: it would leave no voter.
//
// learner is a member to be given its vote behind them; 0: none. A learner that is made
// alone without it would have no voter. Where the log has given it its vote, etcd passes
// over this.
func commitAll(dir string, own, learner uint64) error {
	words := zap.NewNop()
	snapshots, err := wal.ValidSnapshotEntries(words, dir)
	if err != nil {
		return err
	}
	from := &walpb.Snapshot{}
	if n := len(snapshots); n > 0 {
		from = snapshots[n-1]
	}
	log, err := wal.Open(words, dir, from)
	if err != nil {
		return err
	}
	_, state, entries, err := log.ReadAll()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		// A write that the crash interrupted.
		_ = log.Close()
		if !wal.Repair(words, dir) {
			return err
		}
		if log, err = wal.Open(words, dir, from); err != nil {
			return err
		}
		_, state, entries, err = log.ReadAll()
	}
	if err == nil {
		index, term := from.GetIndex(), from.GetTerm()
		if n := len(entries); n > 0 {
			index, term = entries[n-1].GetIndex(), entries[n-1].GetTerm()
		}
		more, err := withoutRemoval(entries, own)
		if err != nil {
			return errors.Join(err, log.Close())
		}
		if learner != 0 && index > 0 {
			index++
			votes, err := promotion(learner, index, term)
			if err != nil {
				return errors.Join(err, log.Close())
			}
			more = append(more, votes...)
		}
		if len(entries)+len(more) > 0 {
			state.Commit = new(index)
			if err := log.Save(state, more); err != nil {
				return errors.Join(err, log.Close())
			}
		}
	}
	return errors.Join(err, log.Close())
}

// withoutRemoval returns what is to be written over the end of a log, from the entry on
// that removes a member, which has no effect any more; nil: there is none.
func withoutRemoval(entries []*raftpb.Entry, member uint64) ([]*raftpb.Entry, error) {
	for i, e := range entries {
		if e.GetType() != raftpb.EntryConfChange {
			continue
		}
		var c raftpb.ConfChange
		if err := proto.Unmarshal(e.GetData(), &c); err != nil {
			return nil, err
		}
		if c.GetType() == raftpb.ConfChangeRemoveNode && c.GetNodeId() == member {
			nothing := &raftpb.Entry{Type: raftpb.EntryNormal.Enum(), Index: new(e.GetIndex()), Term: new(e.GetTerm())}
			return append([]*raftpb.Entry{nothing}, entries[i+1:]...), nil
		}
	}
	return nil, nil
}

// promotion is the entry that gives a learner its vote.
func promotion(learner, index, term uint64) ([]*raftpb.Entry, error) {
	what, err := json.Marshal(membership.ConfigChangeContext{Member: membership.Member{ID: types.ID(learner)}, IsPromote: true})
	if err != nil {
		return nil, err
	}
	raw, err := proto.Marshal(&raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: &learner, Context: what})
	if err != nil {
		return nil, err
	}
	return []*raftpb.Entry{{Type: raftpb.EntryConfChange.Enum(), Index: &index, Term: &term, Data: raw}}, nil
}

// openSource starts the copy as the only member of its cluster.
func (r *Recovery) openSource(ctx context.Context, dir string) (*Embedded, error) {
	opts := r.opts
	opts.Dir = dir
	old := newEmbedded(opts)
	var err error
	if old.folder, err = openFolder(ctx, dir, 0, opts.Clock); err != nil {
		return old, err
	}
	if err := old.launch(old.folder.path("etcd"), nil, func(cfg *embed.Config) {
		cfg.Name = aloneName
		cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
		cfg.ForceNewCluster = true
		cfg.TickMs, cfg.ElectionMs = 10, 100
	}); err != nil {
		return old, err
	}
	if err := old.ready(ctx); err != nil {
		return old, err
	}
	old.server = v3rpc.NewQuotaKVServer(old.etcd.Server)
	return old, nil
}

// copy puts every key of the cell into the new member. The roster stays behind: its
// members are lost.
func (r *Recovery) copy(ctx context.Context, old *Embedded) error {
	from, to := kvlog.Keys{}.Range()
	var at int64
	copied := false
	for more := true; more; {
		page, err := kv{old.server}.Range(ctx, kvlog.Query{From: from, To: to, Rev: at, Limit: recoverPage})
		if err != nil {
			return fmt.Errorf("read the member: %w", err)
		}
		if at == 0 {
			at = page.Rev
		}
		for _, p := range page.Pairs {
			from = p.Key + "\x00"
			if p.Key >= rosterFrom && p.Key < rosterTo {
				continue
			}
			if _, err := r.New.etcd.Server.Put(ctx, &pb.PutRequest{Key: []byte(p.Key), Value: p.Value}); err != nil {
				return fmt.Errorf("write the new member: %w", err)
			}
			copied = true
		}
		more = page.More
	}
	if !copied {
		// A cell would be founded there, and be taken for the one that is lost.
		return fmt.Errorf("%w: the member in %s holds no cell", store.ErrDamaged, r.folder.dir)
	}
	return nil
}

// Finish stops the new member and puts it in the survivor's place. The survivor's own
// is kept beside it. One that is interrupted is called again, of a Recovery that is
// opened anew.
func (r *Recovery) Finish() error {
	for _, step := range r.steps() {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// steps are those of Finish. Each may have been done before.
func (r *Recovery) steps() []func() error {
	return []func() error{r.mark, r.putAside, r.putInPlace, r.forget, r.end, r.clear}
}

// mark says that the new member is complete, when all of it is on the disk.
func (r *Recovery) mark() error {
	if r.done {
		return nil
	}
	err := r.New.Close()
	r.New = nil
	if err != nil {
		return fmt.Errorf("stop the new member: %w", err)
	}
	if err := syncTree(r.folder.path(recovering)); err != nil {
		return err
	}
	if err := r.folder.sync(); err != nil {
		return err
	}
	inside := &folder{dir: r.folder.path(recovering)}
	return errors.Join(inside.replace(built, nil), inside.sync())
}

// syncTree has all that lies below dir on the disk.
func syncTree(dir string) error {
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
	if err != nil {
		return fmt.Errorf("sync the new member: %w", err)
	}
	return nil
}

// fresh is where the new member lies, and whether it still does.
func (r *Recovery) fresh() (name string, there bool, err error) {
	name = filepath.Join(recovering, "new", "etcd")
	there, err = r.folder.has(name)
	return r.folder.path(name), there, err
}

// putAside keeps the survivor's member.
func (r *Recovery) putAside() error {
	_, left, err := r.fresh()
	if err != nil || !left {
		return err
	}
	if there, err := r.folder.has("etcd"); err != nil || !there {
		return err
	}
	if err := os.RemoveAll(r.folder.path(lostMember)); err != nil {
		return fmt.Errorf("remove what an earlier recovery kept: %w", err)
	}
	if err := os.Rename(r.folder.path("etcd"), r.folder.path(lostMember)); err != nil {
		return fmt.Errorf("put the old member aside: %w", err)
	}
	return r.folder.sync()
}

// putInPlace puts the new member where the survivor's was.
func (r *Recovery) putInPlace() error {
	fresh, left, err := r.fresh()
	if err != nil || !left {
		return err
	}
	if err := os.Rename(fresh, r.folder.path("etcd")); err != nil {
		return fmt.Errorf("put the new member in its place: %w", err)
	}
	return r.folder.sync()
}

// forget removes what the folder says of the survivor's member.
func (r *Recovery) forget() error {
	if err := r.folder.replace(aloneMark, nil); err != nil {
		return err
	}
	for _, name := range []string{"seen", foundingMark} {
		if err := r.folder.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// end has servers start on the folder again.
func (r *Recovery) end() error {
	err := os.Rename(r.folder.path(recovering), r.folder.path(recovered))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("end the recovery: %w", err)
	}
	return r.folder.sync()
}

// clear removes the recovery's files.
func (r *Recovery) clear() error { return r.folder.clearRecovered() }

// clearRecovered removes what a recovery left that was interrupted after its end.
func (f *folder) clearRecovered() error {
	if err := os.RemoveAll(f.path(recovered)); err != nil {
		return fmt.Errorf("remove the recovery's files: %w", err)
	}
	return f.sync()
}

// Kept is where the survivor's member lies after Finish.
func (r *Recovery) Kept() string { return r.folder.path(lostMember) }

// giveUp removes a new member that is not complete.
func (r *Recovery) giveUp() error {
	complete, err := r.folder.has(filepath.Join(recovering, built))
	if err != nil || complete {
		return err
	}
	if err := os.RemoveAll(r.folder.path(recovering)); err != nil {
		return fmt.Errorf("remove what the recovery has built: %w", err)
	}
	return nil
}

// Close gives the folder back. Before Finish has marked the new member as complete, the
// folder is then as it was.
func (r *Recovery) Close() error {
	var err error
	if r.New != nil {
		err = r.New.Close()
		r.New = nil
	}
	if r.folder != nil {
		if r.began {
			err = errors.Join(err, r.giveUp())
		}
		err = errors.Join(err, r.folder.unlock())
		r.folder = nil
	}
	return err
}
