package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/goleak"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/testwait"
)

// bound is how long a test waits for what must come.
const bound = 60 * time.Second

// quick is an active-ttl that has the folder looked at every 20 ms.
const quick = 200 * time.Millisecond

// TestMain gives this binary its other parts, see child_test.go.
func TestMain(m *testing.M) {
	if part := os.Getenv(partVariable); part != "" {
		os.Exit(play(part))
	}
	os.Exit(m.Run())
}

// Etcd's own log does not read any more. That is damage, and not a start to be tried
// again.
func TestFlippedBitInEtcdLogIsDamage(t *testing.T) {
	for name, at := range map[string]func(raw []byte) int{
		"in what a record holds":    func(raw []byte) int { return len(bytes.TrimRight(raw, "\x00")) / 2 },
		"in a record's first field": func([]byte) int { return 8 }, // behind its length
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, EmbeddedOptions{Dir: dir})
			mustAppend(t, mustBegin(t, s, 1), 20)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			logs, err := filepath.Glob(filepath.Join(dir, "etcd", "member", "wal", "*.wal"))
			if err != nil || len(logs) == 0 {
				t.Fatalf("etcd's log is %v, %v", logs, err)
			}
			raw, err := os.ReadFile(logs[0])
			if err != nil {
				t.Fatal(err)
			}
			raw[at(raw)] ^= 1
			if err := os.WriteFile(logs[0], raw, 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := OpenEmbedded(t.Context(), EmbeddedOptions{Dir: dir, Clock: clock.System(), Stderr: io.Discard})
			if again != nil || !errors.Is(err, store.ErrDamaged) {
				t.Errorf("a start gives %v, expected store.ErrDamaged", err)
			}
		})
	}
}

func TestRestart(t *testing.T) {
	dir := t.TempDir()
	var last uint64
	var node [16]byte
	for i := range byte(3) {
		s := open(t, EmbeddedOptions{Dir: dir})
		if i > 0 && s.NodeID() != node {
			t.Errorf("the node's id changed from %x to %x", node, s.NodeID())
		}
		node = s.NodeID()
		l := mustBegin(t, s, i+1)
		if l.replayed != last || l.ten.Epoch() != uint64(i)+1 {
			t.Errorf("start %d: replay up to %d, want %d; epoch %d", i, l.replayed, last, l.ten.Epoch())
		}
		mustAppend(t, l, 20)
		last = l.last
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNothingLeftAfterClose(t *testing.T) {
	before := goleak.IgnoreCurrent()
	files := openFiles(t)
	for range 2 {
		s := open(t, EmbeddedOptions{})
		mustAppend(t, mustBegin(t, s, 1), 5)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	noneLeft(t, before)
	testwait.Until(t, bound, "every file closed", func() bool { return openFiles(t) <= files })
}

// A start that is given up leaves nothing behind.
func TestCancelledStartLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := OpenEmbedded(ctx, EmbeddedOptions{Dir: dir, Clock: clock.System(), Stderr: io.Discard}); err == nil {
		_ = s.Close() // quicker than the end of its context
	}
	s := open(t, EmbeddedOptions{Dir: dir})
	mustAppend(t, mustBegin(t, s, 1), 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	noneLeft(t, before)
}

// noneLeft waits for goroutines to end, on a busy machine longer than goleak does.
func noneLeft(t *testing.T, before goleak.Option) {
	t.Helper()
	var left error
	ended := testwait.Holds(bound, func() bool {
		left = goleak.Find(before)
		return left == nil
	})
	if !ended {
		t.Error(left)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here")
	}
	n := 0
	for _, name := range names {
		if to, err := os.Readlink("/proc/self/fd/" + name.Name()); err == nil && strings.HasPrefix(to, os.TempDir()) {
			n++
		}
	}
	return n
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	open(t, EmbeddedOptions{Dir: dir})
	_, err := OpenEmbedded(t.Context(), EmbeddedOptions{Dir: dir, Clock: clock.System()})
	if want := fmt.Sprintf("in use by pid %d", os.Getpid()); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want ErrInUse and %q", err, want)
	}
}

// A server that is just ending is waited for.
func TestInUseWaits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, EmbeddedOptions{Dir: dir})
	clk := &closesAtOnce{Clock: clock.System(), close: func() { _ = s.Close() }}
	e, err := OpenEmbedded(t.Context(), EmbeddedOptions{Dir: dir, Clock: clk, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// closesAtOnce ends the other server while the first wait is on, in no time.
type closesAtOnce struct {
	clock.Clock
	close func()
}

func (c *closesAtOnce) Now() clock.Reading {
	c.close()
	return c.Clock.Now()
}

func TestFolderSwapped(t *testing.T) {
	for name, swap := range map[string]func(dir string) error{
		"away":     func(dir string) error { return os.Rename(dir, dir+".gone") },
		"replaced": func(dir string) error { return errors.Join(os.Rename(dir, dir+".gone"), os.Mkdir(dir, 0o700)) },
		"restored": func(dir string) error {
			return errors.Join(exec.Command("cp", "-a", dir, dir+".old").Run(), os.Rename(dir, dir+".gone"), os.Rename(dir+".old", dir))
		},
		"lock": func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) },
		"new lock": func(dir string) error {
			return exec.Command("cp", "--remove-destination", "/dev/null", filepath.Join(dir, "lock")).Run()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			s := open(t, EmbeddedOptions{Dir: dir, ActiveTTL: quick})
			l := mustBegin(t, s, 1)
			mustAppend(t, l, 3)
			if err := s.Err(); err != nil {
				t.Fatalf("before the swap: %v", err)
			}
			if err := swap(dir); err != nil {
				t.Fatal(err)
			}
			testwait.Until(t, bound, "the store ends", func() bool { return s.Err() != nil })
			<-s.Done()
			for doing, err := range map[string]error{
				"the store": s.Err(), "append": l.append(t.Context(), 1), "confirm": l.ten.Confirm(t.Context()),
			} {
				if !errors.Is(err, store.ErrRolledBack) {
					t.Errorf("%s: %v, want ErrRolledBack", doing, err)
				}
			}
		})
	}
}

// Under a stopped server an older copy of the folder is simply what there is; the cell
// and its clients find out.
func TestFolderCopiedBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, EmbeddedOptions{Dir: dir})
	l := mustBegin(t, s, 1)
	mustAppend(t, l, 5)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cp := func(from, to string) {
		t.Helper()
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
	}
	cp(dir, dir+".old")
	s = open(t, EmbeddedOptions{Dir: dir})
	l = mustBegin(t, s, 2)
	mustAppend(t, l, 50)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".new"); err != nil {
		t.Fatal(err)
	}
	cp(dir+".old", dir)
	s = open(t, EmbeddedOptions{Dir: dir})
	l = mustBegin(t, s, 3)
	if l.replayed != 6 || l.ten.Epoch() != 2 {
		t.Errorf("replay up to %d in epoch %d, want 6 in epoch 2", l.replayed, l.ten.Epoch())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// The member alone set back: the folder knows better.
	if err := os.Rename(filepath.Join(dir+".new", "etcd"), filepath.Join(dir+".new", "newer")); err != nil {
		t.Fatal(err)
	}
	cp(filepath.Join(dir+".old", "etcd"), filepath.Join(dir+".new", "etcd"))
	_, err := OpenEmbedded(t.Context(), EmbeddedOptions{Dir: dir + ".new", Clock: clock.System(), Stderr: io.Discard})
	if !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("the member alone set back: %v, want ErrRolledBack", err)
	}
}

func TestTokensMakeClusters(t *testing.T) {
	a := open(t, EmbeddedOptions{Token: "a-0000000000000001"})
	b := open(t, EmbeddedOptions{Token: "b-0000000000000002"})
	c, err := OpenEmbedded(t.Context(), EmbeddedOptions{Dir: t.TempDir(), Clock: clock.System(), Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ids := map[uint64]bool{}
	for _, e := range []*Embedded{a, b, c} {
		ids[e.seenNow().Cluster] = true
	}
	if len(ids) != 3 {
		t.Errorf("three cells have %d cluster ids", len(ids))
	}
}

// client is a way to the member that goes around the store. It needs no closing:
// it has no connection.
func client(s *Embedded) clientv3.KV { return v3client.New(s.etcd.Server) }

// TestQuotaAlarm fills the member with a past that nobody needs, beyond its
// quota; it comes back without an operator.
func TestQuotaAlarm(t *testing.T) {
	s := open(t, EmbeddedOptions{Quota: 16 << 20, ActiveTTL: quick})
	l := mustBegin(t, s, 1)
	garbage := string(make([]byte, 1<<20))
	refused := false
	for i := 0; i < 100 && !refused; i++ {
		_, err := client(s).Put(t.Context(), "garbage", garbage)
		refused = errors.Is(etcdError(err), rpctypes.ErrNoSpace) // and not for being slow
		s.etcd.Server.Backend().ForceCommit()                    // past the store nobody has it counted
	}
	if !refused {
		t.Fatal("the quota was not reached")
	}
	testwait.Until(t, bound, "room again", func() bool {
		err := l.land(t.Context(), 10)
		if err != nil && !errors.Is(err, store.ErrFull) {
			t.Fatalf("append at the alarm: %v", err)
		}
		return err == nil
	})
	mustAppend(t, l, 20)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Snapshots, as the cell takes them, amount to several times the quota and never raise
// the alarm. On a slow disk the store gets tight before its compaction has run; the
// cell then refuses acquires, and the store must recover by itself.
func TestQuotaHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 96 MiB")
	}
	const quota = 32 << 20
	s := open(t, EmbeddedOptions{Quota: quota, ActiveTTL: quick})
	l := mustBegin(t, s, 1)
	taken := 0
	for written := 0; written < 3*quota; written += 256 << 10 {
		if err := l.land(t.Context(), 256<<10); err != nil {
			t.Fatalf("after %d MiB: %v", written>>20, err)
		}
		u, err := l.ten.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if u.WantsSnapshot() {
			taken++
			if err := l.snapshot(t.Context()); err != nil {
				t.Fatalf("snapshot: %v", err)
			}
		}
		if u.Tight() {
			testwait.Until(t, time.Minute, "room in the store again", func() bool {
				u, err = l.ten.Usage(t.Context())
				return err != nil || !u.Tight()
			})
			if err != nil {
				t.Fatalf("after %d MiB and %d snapshots: %v", written>>20, taken, err)
			}
		}
	}
	if taken == 0 {
		t.Error("no snapshot was wanted")
	}
}

// Signs of life and the like leave a past that is dropped.
func TestCompaction(t *testing.T) {
	s := open(t, EmbeddedOptions{ActiveTTL: idle})
	u := upkeep{Embedded: s, compacted: s.seenNow(), at: s.opts.Clock.Now(), written: s.seenNow(), writtenAt: s.opts.Clock.Now()}
	for range 3 {
		if _, err := client(s).Put(t.Context(), "beat", "x"); err != nil {
			t.Fatal(err)
		}
	}
	rev := s.seenNow().Rev
	kept := func() bool {
		_, err := client(s).Get(t.Context(), "beat", clientv3.WithRev(rev-2))
		return err == nil
	}
	now := s.opts.Clock.Now()
	u.turn(t.Context(), now)
	if !kept() {
		t.Error("compacted at once")
	}
	u.turn(t.Context(), now.Add(compactAfter))
	if kept() {
		t.Errorf("not compacted after %v", compactAfter)
	}
	u.compacted.Rev -= compactRevisions
	if _, err := client(s).Put(t.Context(), "beat", "y"); err != nil {
		t.Fatal(err)
	}
	rev = s.seenNow().Rev + 2
	if _, err := client(s).Put(t.Context(), "beat", "z"); err != nil {
		t.Fatal(err)
	}
	u.turn(t.Context(), now.Add(compactAfter))
	if u.compacted != s.seenNow() {
		t.Errorf("not compacted after %d revisions", compactRevisions)
	}
}
