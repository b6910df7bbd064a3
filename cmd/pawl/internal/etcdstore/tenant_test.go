package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/testwait"
)

// unhurried is the --active-ttl of tests that do not begin anew when a tenure
// ends: on a busy machine a sign of life takes its time.
const unhurried = 30 * time.Second

// Another tenant fills the cluster up to its quota. Nothing of ours can be written
// until the operator makes room. A Confirm of the tenure works all the while, and the
// cell knows that acquires must be refused.
func TestNeighbourFillsEtcd(t *testing.T) { sideBySide(t, neighbourFillsEtcd) }

func neighbourFillsEtcd(t *testing.T, version string) {
	c := etcdtest.Start(t, etcdtest.Options{Version: version, Args: []string{"--quota-backend-bytes", fmt.Sprint(16 << 20)}})
	client := admin(t, c)
	s := newAppender(t, external(t, c, ExternalOptions{ActiveTTL: unhurried}))
	s.appendMany(3)
	garbage := string(make([]byte, 1<<20))
	refused := false
	for i := 0; i < 100 && !refused; i++ {
		_, err := client.Put(t.Context(), "/somebody/else", garbage)
		refused = errors.Is(err, rpctypes.ErrNoSpace) // and not for being slow
	}
	if !refused {
		t.Fatal("the quota was not reached")
	}
	if err := s.log.append(t.Context(), 10); !errors.Is(err, store.ErrFull) {
		t.Errorf("append at the alarm: %v, want ErrFull", err)
	}
	tight := func(want bool) func() bool {
		return func() bool {
			u, err := s.log.ten.Usage(t.Context())
			return err == nil && u.Tight() == want && u.Full == want
		}
	}
	testwait.Until(t, bound, "acquires are refused", tight(true))
	if err := s.log.ten.Confirm(t.Context()); err != nil {
		t.Errorf("confirm at the alarm: %v", err)
	}

	res, err := client.Get(t.Context(), "/somebody/else", clientv3.WithKeysOnly())
	if err == nil {
		// Physical: else etcd deletes in the background, the file may keep its
		// size through the defragmenting, and the alarm is raised again.
		_, err = client.Compact(t.Context(), res.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err == nil {
		_, err = client.Defragment(t.Context(), c.Endpoints()[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.log.append(t.Context(), 10); !errors.Is(err, store.ErrFull) {
		t.Errorf("append before the alarm is disarmed: %v; it is the operator's", err)
	}
	if _, err := client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	s.appendMany(3)
	testwait.Until(t, bound, "acquires are let in again", tight(false))
}

// A compaction in the middle of a replay removes what is being read: the replay begins
// again.
func TestCompactionDuringReplayRestartsIt(t *testing.T) { sideBySide(t, somebodyCompacts) }

func somebodyCompacts(t *testing.T, version string) {
	c := etcdtest.Start(t, etcdtest.Options{Version: version})
	client := admin(t, c)
	s := newAppender(t, external(t, c, ExternalOptions{ActiveTTL: unhurried}))
	s.appendMany(50)
	if err := s.log.ten.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	ten, err := s.store.Claim(t.Context(), store.Node{ID: s.store.NodeID()}, store.Nonce{99}, nil)
	if err != nil {
		t.Fatal(err)
	}
	compact := func() {
		res, err := client.Put(t.Context(), "/somebody/else", "x")
		if err == nil {
			_, err = client.Compact(t.Context(), res.Header.Revision)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	chunk := func(uint64, []byte) error { return nil }
	_, err = ten.Replay(t.Context(), chunk, func(n uint64, _ []byte) error {
		if n == 1 {
			compact()
		}
		return nil
	})
	if err == nil || final(err) || errors.Is(err, store.ErrFenced) || !strings.Contains(err.Error(), "compacted") {
		t.Errorf("a replay over a compaction: %v, want one to be tried again", err)
	}
	if head, err := ten.Replay(t.Context(), chunk, func(uint64, []byte) error { return nil }); err != nil || head != s.acked {
		t.Errorf("the next replay ends at %d (%v), want %d", head, err, s.acked)
	}
}

// A cluster that compacts by itself, as its administrator should have it, takes nothing
// of ours and is not warned of.
func TestAutoCompaction(t *testing.T) { sideBySide(t, autoCompaction) }

func autoCompaction(t *testing.T, version string) {
	c := etcdtest.Start(t, etcdtest.Options{Version: version, Args: []string{
		"--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1s",
	}})
	s := newAppender(t, external(t, c, ExternalOptions{}))
	l := newMonitor(s.store)
	last := int64(0)
	for range rounds(version, 3, 1) {
		testwait.Until(t, bound, "etcd compacts what was written", func() bool {
			s.append()
			err := l.history(t.Context())
			return err == nil && l.past.oldest > max(last, 1)
		})
		last = l.past.oldest
		s.snapshot()
		if err := s.log.ten.Resign(t.Context()); err != nil && !errors.Is(err, store.ErrFenced) {
			t.Fatal(err)
		}
		s.begin() // which reads all that is left
	}
	if l.past.warning != "" || l.past.kept >= s.store.reached.Load().Rev {
		t.Errorf("%d revisions are kept: %q", l.past.kept, l.past.warning)
	}
}

// The oldest revision that etcd keeps is found exactly, no matter who compacts it.
func TestOldestRevision(t *testing.T) { sideBySide(t, oldestRevision) }

func oldestRevision(t *testing.T, version string) {
	c := etcdtest.Start(t, etcdtest.Options{Version: version})
	client := admin(t, c)
	e := external(t, c, ExternalOptions{})
	l := newMonitor(e)
	for range 200 {
		if _, err := client.Put(t.Context(), "/somebody/else", "x"); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []int64{0, 2, 3, 77, 199, 200} {
		want := max(at, 1)
		if at > 0 {
			if _, err := client.Compact(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := l.oldest(t.Context(), 1, 201); err != nil || got != want {
			t.Errorf("compacted at %d: the oldest is %d (%v)", at, got, err)
		}
	}
}

// An operator is warned once, when nothing is ever compacted, or nothing was for a day.
func TestMissingCompactionIsWarnedOnce(t *testing.T) {
	now := clock.System().Now()
	warned := 0
	warn := func(string, ...any) { warned++ }
	var p past
	for i, step := range []struct {
		after           time.Duration
		oldest, present int64
		warning         bool
		warned          int
	}{
		{0, 1, historyMax, false, 0},
		{0, 1, historyMax + 1, true, 1},
		{time.Hour, 1, historyMax + 9, true, 1},
		{time.Hour, 500, historyMax + 600, false, 1},
		{historyAge + time.Hour - time.Second, 500, historyMax + 700, false, 1},
		{historyAge + time.Hour, 500, historyMax + 800, true, 2},
		{historyAge + 2*time.Hour, historyMax, historyMax + 900, false, 2},
	} {
		p.take(now.Add(step.after), step.oldest, step.present, warn)
		if (p.warning != "") != step.warning || warned != step.warned || p.kept != step.present-step.oldest {
			t.Errorf("step %d: %q, %d times, %d kept", i, p.warning, warned, p.kept)
		}
	}
}

// An etcd that takes no batch of the largest size is refused at the start, and one that
// is made so later ends the server, with a text that says what to do.
func TestRequestLimit(t *testing.T) { sideBySide(t, requestLimit) }

func requestLimit(t *testing.T, version string) {
	for _, limit := range []int{1 << 10, 1 << 20} {
		c := etcdtest.Start(t, etcdtest.Options{Version: version, Args: []string{"--max-request-bytes", fmt.Sprint(limit)}})
		err := refusal(t, c, ExternalOptions{})
		if !errors.Is(err, ErrRequestLimit) || !strings.Contains(err.Error(), "--max-request-bytes 1572864") {
			t.Errorf("a limit of %d: %v, want ErrRequestLimit", limit, err)
		}
		c.Close()
	}
	c := etcdtest.Start(t, etcdtest.Options{Version: version})
	e := external(t, c, ExternalOptions{ActiveTTL: unhurried})
	huge := kvlog.Txn{What: kvlog.WhatChunk, Then: []kvlog.Op{{Kind: kvlog.OpPut, Key: "/pawl/test/x", Value: make([]byte, 2<<20)}}}
	if _, err := (tenant{e}).Txn(t.Context(), huge); err == nil {
		t.Fatal("etcd takes a request of 2 MiB")
	}
	<-e.Done()
	if !errors.Is(e.Err(), ErrRequestLimit) {
		t.Errorf("it ends with %v, want ErrRequestLimit", e.Err())
	}
}

// No goroutine outlives the store, whether its cluster answers or not.
func TestExternalStoreLeavesNoGoroutine(t *testing.T) {
	starts(t)
	c := etcdtest.Start(t, etcdtest.Options{})
	before := goleak.IgnoreCurrent()
	for range 2 {
		e := external(t, c, ExternalOptions{})
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		c.Members[0].Stop()
	}
	c.Members[0].Resume()
	noneLeft(t, before)
}

// A data folder was copied. The copy takes over at once, as a restart would, and the
// first one does not take over from it in turn.
func TestOneNodeServedTwice(t *testing.T) {
	starts(t)
	c := etcdtest.Start(t, etcdtest.Options{})
	dirs := [2]string{t.TempDir(), t.TempDir()}
	const long = 10 * time.Minute
	first := external(t, c, ExternalOptions{Dir: dirs[0], ActiveTTL: long})
	newAppender(t, first).appendMany(3)
	if there, err := first.HasCell(t.Context()); err != nil || !there {
		t.Errorf("its cell is there: %t %v", there, err)
	}
	raw, err := os.ReadFile(filepath.Join(dirs[0], "node"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dirs[1], "node"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	second := newAppender(t, external(t, c, ExternalOptions{Dir: dirs[1], ActiveTTL: long}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := begin(ctx, first, 77); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the first one claims again: %v", err)
	}
	second.appendMany(3)
	other := external(t, c, ExternalOptions{Prefix: "/pawl/none/"})
	if there, err := other.HasCell(t.Context()); err != nil || there {
		t.Errorf("a cell where none was made: %t %v", there, err)
	}
}

// TestParseEndpoint reads what people write.
func TestParseEndpoint(t *testing.T) {
	for _, tc := range []struct {
		text    string
		secure  bool
		address string
		tls     bool
	}{
		{"127.0.0.1:2379", false, "127.0.0.1:2379", false},
		{"etcd-0.etcd:2379", true, "etcd-0.etcd:2379", true},
		{"http://[::1]:2379", true, "[::1]:2379", false},
		{"https://etcd:2379/", false, "etcd:2379", true},
	} {
		address, tls, err := ParseEndpoint(tc.text, tc.secure)
		if err != nil || address != tc.address || tls != tc.tls {
			t.Errorf("%q: %q, %t, %v", tc.text, address, tls, err)
		}
	}
	for _, text := range []string{"", "etcd", ":2379", "etcd:", "ftp://etcd:2379", "https://", "https://etcd:2379/v3", "user@etcd:2379", "unix:///x", "[fe80::1%eth0]:2379", "https://[fe80::1]:2379"} {
		if address, _, err := ParseEndpoint(text, false); err == nil {
			t.Errorf("%q is taken for %q", text, address)
		}
	}
}
