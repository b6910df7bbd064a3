//go:build unix

package postgres

import (
	"encoding/binary"
	"errors"
	"hash/adler32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/testwait"
)

// What else a node shows is no token.
func TestOtherZookeeperNumbersAreNoToken(t *testing.T) {
	keeper := keepers(t, 1)
	d := ledger(t)
	all := zk.WorldACL(zk.PermAll)

	t.Run("the sequence number starts again with its parent", func(t *testing.T) {
		conn := keeper.visitor(t)
		turn := func() (name string, czxid int64) {
			t.Helper()
			if _, err := conn.Create("/lock", nil, 0, all); err != nil {
				t.Fatal(err)
			}
			name, err := conn.Create("/lock/n-", nil, zk.FlagEphemeralSequential, all)
			if err != nil {
				t.Fatal(err)
			}
			_, stat, err := conn.Exists(name)
			if err := errors.Join(err, conn.Delete(name, -1), conn.Delete("/lock", -1)); err != nil {
				t.Fatal(err)
			}
			return name, stat.Czxid
		}
		first, low := turn()
		second, high := turn()
		if first != second {
			t.Errorf("the nodes are %s and %s; want one name twice", first, second)
		}
		if high <= low {
			t.Errorf("czxid %d after %d", high, low)
		}
	})

	// While the holder's node stands, somebody sets its value: its mzxid is above
	// the token of the next in the queue.
	t.Run("the mzxid overtakes the next holder", func(t *testing.T) {
		holder, next := keeper.visitor(t), keeper.visitor(t)
		first := locked(t, holder)
		waiting := make(chan guard.Fence, 1)
		go func() {
			_, fence, err := lockWithFence(next, lockPath, "ledger")
			if err != nil {
				t.Error(err)
			}
			waiting <- fence
		}()
		var nodes []string
		testwait.Until(t, bound, "two nodes are in the line", func() (there bool) {
			nodes, _, _ = holder.Children(lockPath)
			return len(nodes) == 2
		})
		slices.SortFunc(nodes, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
		stat, err := holder.Set(lockPath+"/"+nodes[0], []byte("a value of the holder's"), -1)
		if err != nil {
			t.Fatal(err)
		}
		wrong := first
		wrong.Resource, wrong.Token = "by mzxid", guard.Token(stat.Mzxid)
		d.mustClaim(t, first)
		d.mustClaim(t, wrong)
		holder.Close()

		second := <-waiting
		d.mustClaim(t, second)
		second.Resource = wrong.Resource
		if err := d.guard.Claim(t.Context(), second); !errors.Is(err, guard.ErrStale) {
			t.Errorf("the next holder after a mzxid: %v, want stale, for ever", err)
		}
		next.Close()
	})

	t.Run("what was lost at once has no token", func(t *testing.T) {
		conn := keeper.visitor(t)
		locked(t, conn)
		if f, err := fenceOf(conn, lockPath, "ledger", "a word of mine"); err == nil {
			t.Errorf("the fence of somebody else's node: %v", f)
		}
	})

	t.Run("an epoch too high is refused, not cut", func(t *testing.T) {
		conn := keeper.visitor(t)
		cell, err := cellOf(conn)
		if err != nil {
			t.Fatal(err)
		}
		const epochs = 1 << 21
		last := guard.Fence{Resource: "by epoch", Cell: cell, Token: (epochs-1)<<32 | math.MaxUint32}
		d.mustClaim(t, last)
		for _, zxid := range []int64{epochs << 32, epochs<<32 | 7, -1} {
			f := last
			f.Token = guard.Token(zxid)
			if err := d.guard.Claim(t.Context(), f); !errors.Is(err, guard.ErrMalformed) {
				t.Errorf("czxid %d: %v, want malformed", zxid, err)
			}
		}
	})
}

// A parent that has seen 2^31 children gives no higher number than before, and the
// recipe lets two in at once. The guard lets the later one in, and not the other.
func TestSequenceOverflow(t *testing.T) {
	keeper := keepers(t, 1)
	d := ledger(t)
	conn := keeper.visitor(t)
	before := locked(t, conn)
	conn.Close()
	m := keeper.members[0]
	restart := func() {
		m.kill()
		if err := m.start(); err != nil {
			t.Fatal(err)
		}
	}
	restart() // which takes a snapshot
	keeper.visitor(t).Close()
	m.kill()
	setSequence(t, m.data(), lockPath, math.MaxInt32)
	restart()

	first := locked(t, keeper.visitor(t))
	if first.Token <= before.Token {
		t.Errorf("after a restart: %d after %d", first.Token, before.Token)
	}
	d.mustClaim(t, first)
	second := locked(t, keeper.visitor(t)) // though nobody has let go
	d.mustClaim(t, second)
	if err := d.pay(t, second, 110); err != nil {
		t.Error(err)
	}
	if err := d.pay(t, first, 101); !errors.Is(err, guard.ErrStale) {
		t.Errorf("the first of two holders: %v, want stale", err)
	}
}

// setSequence changes a node's count of children in the newest snapshot of a stopped
// server. The snapshot is a header, the nodes, and a checksum of all before it.
func setSequence(t *testing.T, dir, node string, n int32) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "snapshot.*"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no snapshot: %v", err)
	}
	newest := slices.MaxFunc(all, func(a, b string) int { return int(zxidOf(t, a) - zxidOf(t, b)) })
	raw, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	const seal = 8 + 4 + 1 // the checksum and a path, "/"
	body, sum := raw[:len(raw)-seal], raw[len(raw)-seal:]
	if binary.BigEndian.Uint64(sum) != uint64(adler32.Checksum(body)) {
		t.Fatal("the snapshot is not as it was in ZooKeeper 3.8")
	}
	at := strings.Index(string(body), string(binary.BigEndian.AppendUint32(nil, uint32(len(node))))+node)
	if at < 0 {
		t.Fatalf("%s is not in the snapshot", node)
	}
	at += 4 + len(node)
	at += 4 + max(0, int(int32(binary.BigEndian.Uint32(body[at:])))) // its value
	at += 8 + 4*8 + 4                                                // rights, zxids and times, the value's version
	binary.BigEndian.PutUint32(body[at:], uint32(n))
	binary.BigEndian.PutUint64(sum, uint64(adler32.Checksum(body)))
	if err := os.WriteFile(newest, raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

func zxidOf(t *testing.T, snapshot string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimPrefix(filepath.Ext(snapshot), "."), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A new leader begins a new epoch.
func TestZxidRisesOverLeaders(t *testing.T) {
	keeper := keepers(t, 3)
	d := ledger(t)
	turn := func() guard.Fence {
		t.Helper()
		conn := keeper.visitor(t)
		defer conn.Close()
		f := locked(t, conn)
		d.mustClaim(t, f)
		return f
	}
	last := turn()
	for range testwait.Reps(2) {
		leader := keeper.leader(t)
		leader.kill()
		keeper.leader(t)
		f := turn()
		if f.Token <= last.Token || f.Token>>32 <= last.Token>>32 {
			t.Errorf("zxid %#x after %#x, want a higher epoch", uint64(f.Token), uint64(last.Token))
		}
		if f.Cell != last.Cell {
			t.Errorf("the ensemble is called %s, and was %s", f.Cell, last.Cell)
		}
		if err := d.guard.Claim(t.Context(), last); !errors.Is(err, guard.ErrStale) {
			t.Errorf("the holder before: %v, want stale", err)
		}
		last = f
		if err := leader.start(); err != nil {
			t.Fatal(err)
		}
	}
}

// leader is the member that leads.
func (e *ensemble) leader(t *testing.T) (leader *keeperMember) {
	t.Helper()
	testwait.Until(t, bound, "somebody leads", func() bool {
		for _, m := range e.members {
			if m.mode() == "leader" {
				leader = m
			}
		}
		return leader != nil
	})
	return leader
}
