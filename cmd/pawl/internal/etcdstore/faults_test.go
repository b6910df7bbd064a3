package etcdstore

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/testwait"
)

// appender appends whatever becomes of the cluster, and looks at every take-over
// that what was acknowledged is there.
type appender struct {
	t     testing.TB
	store *External
	log   *log
	acked uint64
	nonce byte
}

func newAppender(t testing.TB, e *External) *appender {
	t.Helper()
	s := &appender{t: t, store: e}
	s.begin()
	return s
}

func (s *appender) begin() {
	s.t.Helper()
	testwait.Until(s.t, bound, "a tenure", func() bool {
		s.nonce++
		l, err := begin(s.t.Context(), s.store, s.nonce)
		if err != nil {
			s.t.Logf("begin: %v", err)
			return false
		}
		s.log = l
		return true
	})
	if !s.log.ten.Opened() && s.log.replayed < s.acked {
		s.t.Fatalf("%d was acknowledged and replay ends at %d", s.acked, s.log.replayed)
	}
	s.acked = s.log.last
}

// append lands a batch; a tenure that ended meanwhile is followed by another.
func (s *appender) append() {
	s.t.Helper()
	testwait.Until(s.t, bound, "a batch lands", func() bool {
		err := s.log.append(s.t.Context(), 10)
		switch {
		case err == nil:
			s.acked = s.log.last
			return true
		case errors.Is(err, store.ErrFenced):
			s.begin()
		case final(err):
			s.t.Fatalf("append: %v", err)
		}
		return false // unknown: once more
	})
}

func final(err error) bool {
	return errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrRolledBack)
}

func (s *appender) appendMany(n int) {
	s.t.Helper()
	for range n {
		s.append()
	}
}

// snapshot takes one; a tenure that ended meanwhile is followed by another.
func (s *appender) snapshot() {
	s.t.Helper()
	testwait.Until(s.t, bound, "a snapshot is taken", func() bool {
		err := s.log.snapshot(s.t.Context())
		switch {
		case errors.Is(err, store.ErrFenced):
			s.begin()
		case final(err):
			s.t.Fatalf("snapshot: %v", err)
		}
		return err == nil
	})
}

func starts(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd")
	}
}

// onEachVersion runs a test on 3.5, 3.6 and 3.7, one after the other, where the outcome
// depends on etcd. All other tests run on the newest, or on the version in the variable
// etcdtest.VersionEnv.
func onEachVersion(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	starts(t)
	for _, version := range etcdtest.TestVersions() {
		t.Run(version, func(t *testing.T) { test(t, version) })
	}
}

// sideBySide is onEachVersion for tests that mostly wait: they run in parallel.
func sideBySide(t *testing.T, test func(t *testing.T, version string)) {
	t.Helper()
	onEachVersion(t, func(t *testing.T, version string) {
		t.Parallel()
		test(t, version)
	})
}

// rounds are fewer on the older versions, unless VersionEnv chooses one.
func rounds(version string, full, older int) int {
	n := testwait.Reps(full)
	if version != etcdtest.Newest && os.Getenv(etcdtest.VersionEnv) == "" {
		n = min(n, older)
	}
	return n
}

// threeMembers is a cluster and a writer on it.
func threeMembers(t *testing.T, version string) (*etcdtest.Cluster, *appender) {
	t.Helper()
	c := etcdtest.Start(t, etcdtest.Options{Version: version, Members: 3})
	return c, newAppender(t, external(t, c, ExternalOptions{}))
}

func TestMembersLost(t *testing.T) { onEachVersion(t, membersAreLost) }

func membersAreLost(t *testing.T, version string) {
	c, s := threeMembers(t, version)
	for round := range rounds(version, 6, 2) {
		s.appendMany(10)
		m := c.Members[round%len(c.Members)]
		if leader := c.Leader(t.Context()); round%2 == 0 && leader != nil {
			m = leader
		}
		before := clock.System().Now()
		if round%3 == 0 {
			m.Kill()
		} else {
			m.Stop()
		}
		s.append()
		t.Logf("round %d: %s lost, the next batch landed after %v", round, m.Name, clock.System().Now().Longer(before).Round(time.Millisecond))
		s.appendMany(10)
		if round%3 == 0 {
			if err := m.Start(); err != nil {
				t.Fatal(err)
			}
		} else {
			m.Resume()
		}
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLeaderMovesUnderLoad(t *testing.T) { onEachVersion(t, leaderMovesUnderLoad) }

func leaderMovesUnderLoad(t *testing.T, version string) {
	c, s := threeMembers(t, version)
	moves := 0
	for range rounds(version, 10, 2) {
		leader := leaderOf(t, c)
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{leader.Endpoint()}})
		if err != nil {
			t.Fatal(err)
		}
		members, err := client.MemberList(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members.Members {
			if m.Name != leader.Name {
				moved := make(chan error, 1)
				go func() {
					_, err := client.MoveLeader(t.Context(), m.ID)
					moved <- err
				}()
				s.appendMany(20)
				// On a slow machine another leads meanwhile.
				if err := <-moved; err != nil {
					t.Logf("move the leader: %v", err)
				} else {
					moves++
				}
				break
			}
		}
		_ = client.Close()
	}
	if moves == 0 {
		t.Error("the leader never moved")
	}
}

func leaderOf(t *testing.T, c *etcdtest.Cluster) (leader *etcdtest.Member) {
	t.Helper()
	testwait.Until(t, bound, "somebody leads", func() bool {
		leader = c.Leader(t.Context())
		return leader != nil
	})
	return leader
}

func TestAllMembersDownAndBack(t *testing.T) { onEachVersion(t, allMembersDownAndBack) }

func allMembersDownAndBack(t *testing.T, version string) {
	c, s := threeMembers(t, version)
	s.appendMany(10)
	for _, m := range c.Members {
		m.Kill()
	}
	if err := s.log.append(t.Context(), 10); err == nil {
		t.Error("a batch landed on nobody")
	}
	for _, m := range c.Members {
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
	s.appendMany(10)
}

// A majority is stopped while a batch is on its way. etcd says that the request timed
// out; the batch may have landed, and tried again it has.
func TestRequestTimedOut(t *testing.T) { sideBySide(t, requestTimedOut) }

func requestTimedOut(t *testing.T, version string) {
	c := etcdtest.Start(t, etcdtest.Options{Version: version, Members: 3})
	// No member is left for being slow.
	s := newAppender(t, external(t, c, ExternalOptions{ActiveTTL: 5 * time.Minute}))
	leader := leaderOf(t, c)
	for _, m := range c.Members {
		if m != leader {
			m.Stop()
		}
	}
	err := s.log.append(t.Context(), 10)
	if err == nil || errors.Is(err, store.ErrFenced) || final(err) {
		t.Errorf("without a majority: %v, want an unknown outcome", err)
	}
	t.Logf("without a majority: %v", err)
	for _, m := range c.Members {
		m.Resume()
	}
	s.appendMany(10)
}

// The way to the member in use goes silent, its connections stay open. Another is asked
// long before a keepalive would tell.
func TestNetworkSwallowsOneMember(t *testing.T) {
	starts(t)
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	var relays []*etcdtest.Relay
	var endpoints []string
	for _, m := range c.Members {
		r := etcdtest.NewRelay(t, m.Address())
		relays, endpoints = append(relays, r), append(endpoints, r.Address())
	}
	s := newAppender(t, external(t, c, ExternalOptions{Endpoints: endpoints}))
	// A busy machine may need longer for a batch than a keepalive does. What is
	// shown then is nothing, and it is tried again.
	shown := 0
	for round := 0; shown < testwait.Reps(5) && round < 30; round++ {
		s.appendMany(10)
		at := s.store.current.Load()
		relays[at].Drop(true)
		s.append()
		left := s.store.current.Load() != at
		if state := s.store.all[at].conn.GetState(); left && state == connectivity.Ready {
			shown++
		} else {
			t.Logf("left: %t; its connection is %v", left, state)
		}
		relays[at].Drop(false)
		testwait.Until(t, bound, "the leader is asked again", func() bool {
			leader := c.Leader(t.Context())
			return leader != nil && c.Members[s.store.current.Load()] == leader
		})
	}
	if shown == 0 {
		t.Error("no member was left before the keepalive told")
	}
}

// A single member's folder is set back to an older copy. The running server sees it at
// its next confirm or append; so does one that starts on the same data folder; a new one
// cannot know.
func TestRolledBackUnderARunningServer(t *testing.T) {
	starts(t)
	c := etcdtest.Start(t, etcdtest.Options{})
	m := c.Members[0]
	dir := t.TempDir()
	// So slow a server gives no sign of life in between.
	e := external(t, c, ExternalOptions{Dir: dir, ActiveTTL: 10 * time.Minute})
	s := newAppender(t, e)
	s.appendMany(10)
	data, old := filepath.Join(m.Dir, "data"), filepath.Join(m.Dir, "old")
	m.Kill()
	if out, err := exec.Command("cp", "-a", data, old).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	again := func() {
		t.Helper()
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	again()
	s.appendMany(10)
	m.Kill()
	if err := errors.Join(os.RemoveAll(data), os.Rename(old, data)); err != nil {
		t.Fatal(err)
	}
	again()
	testwait.Until(t, bound, "the roll-back is seen", func() bool {
		err := s.log.ten.Confirm(t.Context())
		if err == nil {
			t.Fatal("a confirm succeeds over a store that lost batches")
		}
		return errors.Is(err, store.ErrRolledBack)
	})
	if err := s.log.append(t.Context(), 10); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("append: %v, want ErrRolledBack", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := refusal(t, c, ExternalOptions{Dir: dir}); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("a start on what the folder knows better: %v, want ErrRolledBack", err)
	}
	if err := os.Remove(filepath.Join(dir, "seen")); err != nil {
		t.Fatal(err)
	}
	newAppender(t, external(t, c, ExternalOptions{Dir: dir})).appendMany(3)
}

// Behind the same name there is another cluster now.
func TestAnotherCluster(t *testing.T) {
	starts(t)
	c := etcdtest.Start(t, etcdtest.Options{})
	other := etcdtest.Start(t, etcdtest.Options{})
	dir := t.TempDir()
	e := external(t, c, ExternalOptions{Dir: dir})
	newAppender(t, e).appendMany(3)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := refusal(t, other, ExternalOptions{Dir: dir}); !errors.Is(err, store.ErrRolledBack) {
		t.Errorf("another cluster: %v, want ErrRolledBack", err)
	}
}

// A server that starts before its etcd waits for it.
func TestStartWaitsForCluster(t *testing.T) {
	starts(t)
	c := etcdtest.Start(t, etcdtest.Options{})
	c.Members[0].Kill()
	e := external(t, c, ExternalOptions{})
	if err := c.Members[0].Start(); err != nil {
		t.Fatal(err)
	}
	newAppender(t, e).appendMany(3)
}
