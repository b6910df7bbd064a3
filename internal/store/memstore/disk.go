package memstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// compactEvery bounds the past that a Disk keeps, in revisions, when nobody
// compacts it.
const compactEvery = 4096

// ErrCompacted: the revision asked for is no longer kept.
var ErrCompacted = errors.New("memstore: the revision has been compacted")

// Disk is the durable state that several stores share: a linearizable map whose
// keys carry revisions. Safe for use by several goroutines.
type Disk struct {
	mu        sync.Mutex
	state     State
	compacted int64
	full      bool
	quota     int64
	journal   *faulty.Journal
}

var _ kvlog.KV = (*Disk)(nil)

// State is what a Disk holds at one moment. Never changed once saved.
type State struct {
	rev     int64
	cluster uint64
	// keys in ascending order, and each one's past, oldest first.
	keys []string
	past map[string][]version
}

// version is what a key holds from rev on; gone: nothing.
type version struct {
	rev   int64
	value []byte
	gone  bool
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	return &Disk{state: State{rev: 1, cluster: 1, past: map[string][]version{}}}
}

// Save returns the present state.
func (d *Disk) Save() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.copy()
}

// Restore sets the disk back, or forward, to a state saved earlier; servers at
// work are not told.
func (d *Disk) Restore(s State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = s.copy()
	d.compacted = 0
}

// RestoreAhead sets the disk back to what an earlier state holds, under a revision above
// all there were, as etcd's restore with --bump-revision does.
func (d *Disk) RestoreAhead(s State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rev := d.state.rev
	d.state = s.copy()
	d.state.rev = max(d.state.rev, rev+1)
	d.compacted = 0
}

// SetCluster makes the disk another one, as a restore with a new token does.
func (d *Disk) SetCluster(id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state.cluster = id
}

// SetFull has every write refused with ErrFull, or accepted again.
func (d *Disk) SetFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// SetQuota bounds the bytes kept, the past included; a transaction with a put
// in either branch is then refused, as etcd does. 0: no bound.
func (d *Disk) SetQuota(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.quota = bytes
}

// Holds returns what key holds at present, nil when it is absent.
func (d *Disk) Holds(key string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(d.state.at(key, d.state.rev).value)
}

// Txn is one step: conditions, then a branch.
func (d *Disk) Txn(ctx context.Context, t kvlog.Txn) (kvlog.Result, error) {
	if err := ctx.Err(); err != nil {
		return kvlog.Result{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.Writes() && (d.full || d.quota > 0 && hasPut(t) && d.state.size() >= d.quota) {
		return kvlog.Result{}, fmt.Errorf("%s: %w", t.What, store.ErrFull)
	}
	ok := true
	for _, c := range t.If {
		ok = ok && d.state.holds(c)
	}
	branch := t.Else
	if ok {
		branch = t.Then
	}
	res := kvlog.Result{OK: ok}
	if writes(branch) {
		d.state.rev++
	}
	for _, op := range branch {
		switch op.Kind {
		case kvlog.OpGet:
			v := d.state.at(op.Key, d.state.rev)
			res.Gets = append(res.Gets, kvlog.Pair{Key: op.Key, Value: bytes.Clone(v.value), Rev: v.rev})
		case kvlog.OpPut:
			d.state.set(op.Key, bytes.Clone(op.Value), false)
		case kvlog.OpDelete:
			for _, key := range d.state.between(op.Key, op.End, d.state.rev, all) {
				d.state.set(key, nil, true)
			}
		}
	}
	if d.state.rev-d.compacted > 2*compactEvery {
		d.compact(d.state.rev - compactEvery)
	}
	res.Seen = d.seen()
	return res, nil
}

func hasPut(t kvlog.Txn) bool {
	isPut := func(op kvlog.Op) bool { return op.Kind == kvlog.OpPut }
	return slices.ContainsFunc(t.Then, isPut) || slices.ContainsFunc(t.Else, isPut)
}

func writes(branch []kvlog.Op) bool { return kvlog.Txn{Then: branch}.Writes() }

func (d *Disk) seen() kvlog.Seen {
	return kvlog.Seen{Rev: d.state.rev, Cluster: d.state.cluster}
}

// Range reads at one revision.
func (d *Disk) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	if err := ctx.Err(); err != nil {
		return kvlog.Page{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	rev := q.Rev
	switch {
	case rev == 0:
		rev = d.state.rev
	case rev < d.compacted:
		return kvlog.Page{}, fmt.Errorf("read at revision %d: %w", rev, ErrCompacted)
	case rev > d.state.rev:
		return kvlog.Page{}, fmt.Errorf("read at revision %d: the disk is at %d", rev, d.state.rev)
	}
	page := kvlog.Page{Seen: d.seen()}
	keys := d.state.between(q.From, q.To, rev, q.Limit+1)
	if len(keys) > q.Limit {
		keys, page.More = keys[:q.Limit], true
	}
	for _, key := range keys {
		v := d.state.at(key, rev)
		p := kvlog.Pair{Key: key, Rev: v.rev}
		if !q.KeysOnly {
			p.Value = bytes.Clone(v.value)
		}
		page.Pairs = append(page.Pairs, p)
	}
	return page, nil
}

// Compact forgets the past before rev.
func (d *Disk) Compact(_ context.Context, rev int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.compact(rev)
	return nil
}

func (d *Disk) compact(rev int64) {
	if rev <= d.compacted {
		return
	}
	d.compacted = rev
	d.state.forget(rev)
}

// Usage says what the keys and their past take, and the quota.
func (d *Disk) Usage(context.Context) (store.Usage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return store.Usage{Used: d.state.size(), Quota: d.quota}, nil
}

func (s *State) copy() State {
	c := State{rev: s.rev, cluster: s.cluster, keys: slices.Clone(s.keys), past: make(map[string][]version, len(s.past))}
	for key, versions := range s.past {
		c.past[key] = slices.Clone(versions)
	}
	return c
}

func (s *State) set(key string, value []byte, gone bool) {
	i, found := slices.BinarySearch(s.keys, key)
	if !found {
		s.keys = slices.Insert(s.keys, i, key)
	}
	s.past[key] = append(s.past[key], version{rev: s.rev, value: value, gone: gone})
}

// at returns what key held at rev; the zero version when it was absent.
func (s *State) at(key string, rev int64) version {
	versions := s.past[key]
	for i := len(versions) - 1; i >= 0; i-- {
		if versions[i].rev <= rev {
			if versions[i].gone {
				return version{}
			}
			return versions[i]
		}
	}
	return version{}
}

const all = math.MaxInt

// between lists the first limit keys in [from, to) present at rev.
func (s *State) between(from, to string, rev int64, limit int) []string {
	var keys []string
	for i := sort.SearchStrings(s.keys, from); i < len(s.keys) && s.keys[i] < to && len(keys) < limit; i++ {
		if s.at(s.keys[i], rev).rev != 0 {
			keys = append(keys, s.keys[i])
		}
	}
	return keys
}

func (s *State) holds(c kvlog.Cond) bool {
	keys := []string{c.Key}
	if c.End != "" {
		keys = s.between(c.Key, c.End, s.rev, all)
	}
	for _, key := range keys {
		v := s.at(key, s.rev)
		if c.Value != nil && (v.rev == 0 || !bytes.Equal(v.value, c.Value)) || c.Value == nil && v.rev != c.Rev {
			return false
		}
	}
	return true
}

func (s *State) forget(rev int64) {
	s.keys = slices.DeleteFunc(s.keys, func(key string) bool {
		versions := s.past[key]
		keep := 0
		for i, v := range versions {
			if v.rev <= rev {
				keep = i
			}
		}
		versions = slices.Clone(versions[keep:])
		if versions[0].gone && versions[0].rev <= rev {
			versions = versions[1:]
		}
		if len(versions) == 0 {
			delete(s.past, key)
			return true
		}
		s.past[key] = versions
		return false
	})
}

func (s *State) size() int64 {
	var n int
	for key, versions := range s.past {
		for _, v := range versions {
			n += len(key) + len(v.value)
		}
	}
	return int64(n)
}
