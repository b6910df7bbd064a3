package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

var keep = flag.Bool("keep", false, "write the store that later versions must go on with; for a new format alone")

// kept is a store as a version left it: every key with its value, and what was to
// be seen of it.
type kept struct {
	Pairs []keptPair
	// Lease and Session are ids that their holders know.
	Lease, Session string
	Seen           []seenLock
	Highest        guard.Token
}

type keptPair struct {
	Key   string
	Value []byte
}

// seenLock is a listing without what passes.
type seenLock struct {
	Name   string
	Tokens []guard.Token
	Slots  []uint32
	Value  []byte
	Of     uint32
}

const keptFile = "store-1.json"

// keepStore has a cell do a little of everything, and returns what is left of it.
func keepStore(t *testing.T, c *cast) (k kept) {
	i := c.launch(t, c.disk, "one", 1, clock.Bubble())
	<-i.cell.Ready()
	ctx := t.Context()
	take := func(r cell.AcquireRequest) cell.Lease {
		t.Helper()
		r.TTL = 24 * time.Hour
		if r.Session != "" {
			r.TTL = 0
		}
		l, err := i.cell.Acquire(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		k.Highest = max(k.Highest, l.Granted.Token)
		return l
	}
	session, _, err := i.cell.OpenSession(ctx, 24*time.Hour, "of a session")
	if err != nil {
		t.Fatal(err)
	}
	k.Session = session
	k.Lease = take(cell.AcquireRequest{Names: []string{"alone"}, Value: []byte("value"), Label: "label", RequestID: "request"}).ID
	take(cell.AcquireRequest{Names: []string{"one", "and/another"}, Session: session, RequestID: "of the session"})
	for range 2 {
		take(cell.AcquireRequest{Names: []string{"shared"}, Mode: locktable.Shared})
		take(cell.AcquireRequest{Names: []string{"slots"}, Mode: locktable.Slots, Slots: 3})
	}
	gone := take(cell.AcquireRequest{Names: []string{"released"}})
	if err := i.cell.Release(ctx, gone.ID); err != nil {
		t.Fatal(err)
	}
	broken := take(cell.AcquireRequest{Names: []string{"closed"}, LockDelay: time.Hour})
	if _, err := i.link.Break(ctx, &linkpb.BreakRequest{Name: "closed", Token: uint64(broken.Granted.Token), Reason: "reason", Now: true}); err != nil {
		t.Fatal(err)
	}
	// Heard of for the last time long ago: its silence is in the log.
	if _, err := i.cell.Acquire(ctx, cell.AcquireRequest{Names: []string{"expired"}, TTL: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second) //tidy:bubble only called in bubbles
	k.Seen = listAll(t, i)
	i.crash()
	page, err := c.disk.Range(ctx, kvlog.Query{From: "\x00", To: "\xff", Limit: 10_000})
	if err != nil || page.More {
		t.Fatal(err)
	}
	for _, p := range page.Pairs {
		k.Pairs = append(k.Pairs, keptPair{p.Key, p.Value})
	}
	return k
}

func listAll(t *testing.T, i instance) (all []seenLock) {
	t.Helper()
	page, err := i.link.List(t.Context(), &linkpb.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range page.Locks {
		s := seenLock{Name: l.Name, Value: l.Value, Of: l.Slots}
		for _, h := range l.Holders {
			s.Tokens, s.Slots = append(s.Tokens, guard.Token(h.Token)), append(s.Slots, h.Slot)
		}
		all = append(all, s)
	}
	return all
}

// fill makes a disk hold what was kept.
func (k kept) fill(t *testing.T, disk *memstore.Disk, change func(*keptPair)) {
	t.Helper()
	for _, p := range k.Pairs {
		p.Value = bytes.Clone(p.Value)
		change(&p)
		put := kvlog.Txn{Then: []kvlog.Op{{Kind: kvlog.OpPut, Key: p.Key, Value: p.Value}}}
		if _, err := disk.Txn(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
}

func readKept(t *testing.T) (k kept) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", keptFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &k); err != nil {
		t.Fatal(err)
	}
	return k
}

// C76: this version goes on with a store as an earlier version left it, byte by byte.
// It finds every key and reads every record. Leases are held under the same tokens, by
// clients that know their ids, and exclude new callers. A change of how a name, a key
// or a record is written fails here, and needs a new format.
func TestStoreOfEarlierVersionIsRead(t *testing.T) {
	if *keep {
		synctest.Test(t, func(t *testing.T) {
			raw, err := json.MarshalIndent(keepStore(t, newCast(t)), "", "\t")
			if err == nil {
				err = os.WriteFile(filepath.Join("testdata", keptFile), append(raw, '\n'), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c, k := newCast(t), readKept(t)
		k.fill(t, c.disk, func(*keptPair) {})
		i := c.launch(t, c.disk, "one", 1, clock.Bubble())
		<-i.cell.Ready()
		same := func(a, b seenLock) bool {
			return a.Name == b.Name && slices.Equal(a.Tokens, b.Tokens) &&
				slices.Equal(a.Slots, b.Slots) && bytes.Equal(a.Value, b.Value) && a.Of == b.Of
		}
		if now := listAll(t, i); len(now) < 6 || !slices.EqualFunc(now, k.Seen, same) {
			t.Errorf("it was left as\n%+v\nand is\n%+v", k.Seen, now)
		}
		p := c.client(time.Minute, "one")
		for _, l := range k.Seen {
			if len(l.Tokens) == 0 || l.Of > 0 {
				continue
			}
			var held *pawl.HeldError
			if _, err := p.TryAcquire(t.Context(), l.Name); !errors.As(err, &held) || !slices.Contains(l.Tokens, held.Token) {
				t.Errorf("%s, held under %v: %v", l.Name, l.Tokens, err)
			}
		}
		if _, err := i.cell.RenewLease(t.Context(), k.Lease, 0); err != nil {
			t.Errorf("renewed by its id: %v", err)
		}
		if _, err := i.cell.RenewSession(t.Context(), k.Session, 0); err != nil {
			t.Errorf("the session by its id: %v", err)
		}
		again, err := i.cell.Acquire(t.Context(), cell.AcquireRequest{
			Names: []string{"alone"}, Value: []byte("value"), Label: "label", RequestID: "request", TTL: 24 * time.Hour,
		})
		if err != nil || again.ID != k.Lease {
			t.Errorf("asked for once more under its request id: %v", err)
		}
		for _, free := range []string{"released", "expired"} {
			if l := c.take(p, free); l.Token() <= k.Highest {
				t.Errorf("%s: token %d after %d", free, l.Token(), k.Highest)
			}
		}
		if err := i.cell.Release(t.Context(), k.Lease); err != nil {
			t.Error(err)
		}
		c.let(c.take(p, "alone"))
	})
}

// C76: a record of a format that comes later is not guessed at. The server says
// which it found and serves nobody.
func TestStoreOfLaterVersionIsRefused(t *testing.T) {
	for key, change := range map[string]func(*keptPair){
		"log/": func(p *keptPair) {
			if !bytes.HasPrefix(p.Value, []byte{8, store.Format}) {
				t.Fatalf("%s begins with % x", p.Key, p.Value[:2])
			}
			p.Value[1] = store.Format + 1
		},
		"tenure": func(p *keptPair) { p.Value = bytes.Replace(p.Value, []byte(`"format":1`), []byte(`"format":2`), 1) },
	} {
		synctest.Test(t, func(t *testing.T) {
			c, k := newCast(t), readKept(t)
			changed := 0
			k.fill(t, c.disk, func(p *keptPair) {
				if strings.HasPrefix(p.Key, key) {
					change(p)
					changed++
				}
			})
			if changed == 0 {
				t.Fatalf("nothing is called %s…", key)
			}
			st := c.disk.Store(memstore.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL})
			defer st.Close()
			served := cell.New(cell.Options{Store: st, Node: store.Node{ID: [16]byte{1}}, Clock: clock.Bubble(), Name: "test", ActiveTTL: activeTTL})
			err := served.Run(t.Context())
			if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "format 2") {
				t.Errorf("%s of format 2: %v", key, err)
			}
			if served.Info().Active {
				t.Errorf("%s of format 2 is served", key)
			}
		})
	}
}
