//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/pawlproject/pawl/guard"
)

// Zxids go up over the life of one ensemble's data and not beyond it.
func TestEnsembleSetBack(t *testing.T) {
	keeper := keepers(t, 1)
	d := ledger(t)
	m := keeper.members[0]
	data, old := m.data(), m.data()+".old"
	turn := func(before func(conn *zk.Conn)) guard.Fence {
		t.Helper()
		conn := keeper.visitor(t)
		defer conn.Close()
		before(conn)
		return locked(t, conn)
	}
	again := func(change func() error) {
		t.Helper()
		m.kill()
		if err := errors.Join(change(), m.start()); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func(*zk.Conn) {}
	turn(nothing)
	again(func() error { return exec.Command("cp", "-a", data, old).Run() })
	lost := turn(func(conn *zk.Conn) {
		for i := range 50 {
			if _, err := conn.Create(fmt.Sprintf("/busy-%d", i), nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		}
	})
	d.mustClaim(t, lost)

	// Set back, it counts the same numbers again. While they are low every
	// holder is refused; then one comes that was given before.
	again(func() error { return errors.Join(os.RemoveAll(data), os.Rename(old, data)) })
	low := turn(nothing)
	if low.Token >= lost.Token || low.Cell != lost.Cell {
		t.Fatalf("set back: %v after %v", low, lost)
	}
	if err := d.guard.Claim(t.Context(), low); !errors.Is(err, guard.ErrStale) {
		t.Errorf("a lower number under the same name: %v, want stale", err)
	}

	// Under another name nothing of before passes, once the row was handed over.
	renamed := turn(func(conn *zk.Conn) {
		if err := conn.Delete(cellNode, -1); err != nil {
			t.Fatal(err)
		}
	})
	if renamed.Cell == lost.Cell {
		t.Fatal("the ensemble keeps its name")
	}
	d.moves(t, lost, renamed)

	// A wiped ensemble has another name by itself.
	again(func() error { return os.RemoveAll(data) })
	wiped := turn(nothing)
	if wiped.Cell == renamed.Cell {
		t.Fatal("a new ensemble has the old one's name")
	}
	d.moves(t, renamed, wiped)

	// And from ZooKeeper's lock to a lease of pawl's.
	d.moves(t, wiped, guard.Fence{Resource: "ledger", Token: 1886543210987654, Cell: "default-9f86d081884c7d65"})
}

// moves hands the ledger from one numbering to another, as the page says.
func (d *database) moves(t *testing.T, old, now guard.Fence) {
	t.Helper()
	if err := d.guard.Claim(t.Context(), now); !errors.Is(err, guard.ErrForeign) {
		t.Errorf("before the hand-over: %v, want foreign", err)
	}
	text, err := os.ReadFile("../../docs/guards-postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Handing a database to another cell")
	_, section, _ = strings.Cut(section, "```sql\n")
	sql, _, found := strings.Cut(section, "```")
	if !found {
		t.Fatal("the page hands nothing over")
	}
	sql = strings.NewReplacer("orders/7", now.Resource, ":'cell'", "'"+now.Cell+"'", ":fence", fmt.Sprint(uint64(now.Token))).Replace(sql)
	conn, err := d.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
	conn.Release()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if err := d.pay(t, old, 101); !errors.Is(err, guard.ErrForeign) {
		t.Errorf("a holder from before the hand-over: %v, want foreign", err)
	}
	if err := d.pay(t, now, 110); err != nil {
		t.Errorf("the holder after the hand-over: %v", err)
	}
}
