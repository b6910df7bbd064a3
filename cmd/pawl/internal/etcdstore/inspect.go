package etcdstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/internal/store"
)

// mendFolder is what an operator can do about a folder that is damaged.
const mendFolder = "keep a copy of the folder; put back what was there, or start on an empty folder with --cell-id (docs/operate.md)"

// damage is store.ErrDamaged of the file name, with what is wrong and what to do.
func damage(name, wrong string) error {
	return fmt.Errorf("%w: %s %s; %s", store.ErrDamaged, name, wrong, mendFolder)
}

// inspect looks for damage in a member's files on which etcd would panic, stay silent
// or wait for ever. Damage that etcd reports itself is left to etcd. Errors are
// store.ErrDamaged, or those of files that may not be read.
func (f *folder) inspect() error {
	wal, snap := f.path("etcd/member/wal"), f.path("etcd/member/snap")
	for _, dir := range []string{f.path("etcd"), f.path("etcd/member"), wal, snap} {
		if err := inspectKind(dir, fs.ModeDir, "a folder"); err != nil {
			return err
		}
	}
	if err := inspectLog(wal); err != nil {
		return err
	}
	snaps, err := filepath.Glob(filepath.Join(snap, "*.snap"))
	if err != nil {
		return err
	}
	for _, name := range snaps {
		if err := inspectKind(name, 0, "a file"); err != nil {
			return err
		}
	}
	return inspectDB(filepath.Join(snap, "db"))
}

// ErrNotAlone: the folder is of a member that has others beside it.
var ErrNotAlone = errors.New("the folder is of one member of several")

// inspectAlone reads the end, and refuses a member that has others beside it: it would
// wait for them for ever.
func inspectAlone(member string, words *zap.Logger) error {
	end, err := readEnd(member, words)
	if err != nil {
		return err
	}
	var names []string
	for _, m := range end.members {
		names = append(names, m.Name+"="+m.URL)
	}
	if len(names) > 1 {
		return fmt.Errorf("%w: %s; start it with --node and --peers, or, when most of them are lost for good, see \"pawl member recover\"", ErrNotAlone, strings.Join(names, ","))
	}
	return nil
}

// folderEnd is what a member's files hold.
type folderEnd struct {
	// cluster and id of the member, and the last entry of its log.
	cluster, id, last uint64
	// members of the cluster as its database has them; others: its log changes more.
	members []memberShown
	others  bool
	// removed: the member has applied that it was removed.
	removed bool
}

// name is the member's as the cluster knows it; empty: it had none yet, or was alone.
func (end folderEnd) name() string {
	for _, m := range end.members {
		if m.ID == end.id && m.Name != aloneName {
			return m.Name
		}
	}
	return ""
}

// readEnd reads how far a member's files reach. It returns store.ErrDamaged where the
// log does not reach as far as the database, which is written after it. A log that has
// lost its end since looks like one that a crash cut off: the member would wait for an
// election that it cannot win, or number new entries like entries that the database has
// applied, and skip them. The database may lack the last second before a kill; nothing
// here shows whether the log lost that.
func readEnd(member string, words *zap.Logger) (end folderEnd, err error) {
	be := backend.NewDefaultBackend(words, filepath.Join(member, "snap", "db"))
	applied, _ := schema.ReadConsistentIndex(be.ReadTx())
	members, removed := schema.NewMembershipBackend(words, be).MustReadMembersFromBackend()
	if err := be.Close(); err != nil {
		return end, fmt.Errorf("look at etcd's database: %w", err)
	}
	for _, m := range members {
		end.members = append(end.members, memberShown{ID: uint64(m.ID), Name: m.Name, URL: strings.Join(m.PeerURLs, ","), Learner: m.IsLearner})
	}
	dir := filepath.Join(member, "wal")
	unread := func(err error) error {
		if errors.As(err, new(syscall.Errno)) {
			return fmt.Errorf("look at etcd's log: %w", err)
		}
		return damage(dir, fmt.Sprintf("cannot be read (%v)", err))
	}
	snapshots, err := wal.ValidSnapshotEntries(words, dir)
	if err != nil {
		return end, unread(err)
	}
	from := &walpb.Snapshot{}
	if n := len(snapshots); n > 0 {
		from = snapshots[n-1]
	}
	log, err := wal.OpenForRead(words, dir, from)
	if err != nil {
		return end, unread(err)
	}
	metadata, _, entries, err := log.ReadAll()
	_ = log.Close() // syncs what was opened for reading, and fails
	if err != nil {
		return end, unread(err)
	}
	var of pb.Metadata
	if err := proto.Unmarshal(metadata, &of); err != nil {
		return end, unread(err)
	}
	end.cluster, end.id, end.last = of.GetClusterID(), of.GetNodeID(), from.GetIndex()
	end.removed = removed[types.ID(end.id)]
	if n := len(entries); n > 0 {
		end.last = entries[n-1].GetIndex()
	}
	if end.others, err = changesOthers(entries, end.id); err != nil {
		return end, unread(err)
	}
	if end.last < applied {
		return end, damage(dir, fmt.Sprintf("lost its end: it goes to entry %d, and %s has applied %d", end.last, filepath.Join(member, "snap", "db"), applied))
	}
	return end, nil
}

// changesOthers reports whether entries of a log add or remove another member than own.
// The database may not have it yet.
func changesOthers(entries []*raftpb.Entry, own uint64) (bool, error) {
	for _, e := range entries {
		if e.GetType() != raftpb.EntryConfChange {
			continue
		}
		var c raftpb.ConfChange
		if err := proto.Unmarshal(e.GetData(), &c); err != nil {
			return false, err
		}
		if c.GetNodeId() != own {
			return true, nil
		}
	}
	return false, nil
}

// inspectKind has name be of a kind.
func inspectKind(name string, kind fs.FileMode, words string) error {
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damage(name, "is missing")
	case err != nil:
		return fmt.Errorf("look at the data folder: %w", err)
	case st.Mode().Type() != kind:
		return damage(name, "is not "+words)
	}
	return nil
}

// inspectLog looks at the segments of etcd's log. Each gets its name when its first
// record is on the disk, and their numbers leave none out.
func inspectLog(dir string) error {
	entries, err := os.ReadDir(dir) // by name, and so by number
	if err != nil {
		return fmt.Errorf("look at the data folder: %w", err)
	}
	var last uint64
	segments := 0
	for _, e := range entries {
		var number, index uint64
		if n, _ := fmt.Sscanf(e.Name(), "%016x-%016x.wal", &number, &index); n != 2 || e.Name() != fmt.Sprintf("%016x-%016x.wal", number, index) {
			continue // what is foreign is passed over, as etcd does
		}
		name := filepath.Join(dir, e.Name())
		if segments > 0 && number != last+1 {
			return damage(dir, fmt.Sprintf("lacks the segment with the number %016x, before %s", last+1, e.Name()))
		}
		last, segments = number, segments+1
		if err := inspectKind(name, 0, "a file"); err != nil {
			return err
		}
		file, err := os.OpenFile(name, os.O_RDWR, 0) // as etcd does
		if err != nil {
			return fmt.Errorf("look at the data folder: %w", err)
		}
		wrong, err := firstRecord(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("look at the data folder: %w", err)
		}
		if wrong != "" {
			return damage(name, wrong)
		}
	}
	if segments == 0 {
		return damage(dir, "holds no segment (*.wal) of the log")
	}
	return nil
}

// firstRecord says what is wrong with the first record of a segment; empty: nothing
// that can be told from its length.
func firstRecord(file *os.File) (wrong string, err error) {
	st, err := file.Stat()
	if err != nil {
		return "", err
	}
	var length [8]byte
	_, err = io.ReadFull(file, length[:])
	// The upper byte says how it is padded.
	bytes := binary.LittleEndian.Uint64(length[:]) & (1<<56 - 1)
	switch {
	case errors.Is(err, io.EOF):
		return "is empty", nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "is cut short", nil
	case err != nil:
		return "", err
	case bytes == 0:
		return "begins with zeros instead of a record", nil
	case uint64(st.Size()) < uint64(len(length))+bytes:
		return "is cut short, or does not begin with a record", nil
	}
	return "", nil
}

// Of a database of bbolt: two pages begin with what is known of the whole, the meta,
// and the one that was written last counts.
const (
	metaAt     = 16 // behind the page's header
	metaLength = 64
	metaMagic  = 0xED0CDAED
)

// inspectDB has the database hold the pages that it knows of. A file without any
// would be taken for a new one.
func inspectDB(name string) error {
	if err := inspectKind(name, 0, "a file"); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("look at the data folder: %w", err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return fmt.Errorf("look at the data folder: %w", err)
	}
	if st.Size() == 0 {
		return damage(name, "is empty")
	}
	var written, needs uint64
	found := false
	// The second begins where the first page ends, of whatever size pages are here.
	for _, at := range []int64{0, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10} {
		var meta [metaLength]byte
		if _, err := file.ReadAt(meta[:], at+metaAt); err != nil {
			break // the file ends
		}
		order := binary.NativeEndian
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:metaLength-8])
		if order.Uint32(meta[0:]) != metaMagic || order.Uint64(meta[metaLength-8:]) != sum.Sum64() {
			continue
		}
		if id := order.Uint64(meta[48:]); !found || id > written {
			written, needs = id, order.Uint64(meta[40:])*uint64(order.Uint32(meta[8:]))
		}
		found = true
	}
	switch {
	case !found:
		return damage(name, "is no database, or its beginning is damaged")
	case uint64(st.Size()) < needs:
		return damage(name, fmt.Sprintf("is cut short: %d bytes of %d are there", st.Size(), needs))
	}
	return nil
}
