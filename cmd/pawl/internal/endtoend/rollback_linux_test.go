package endtoend

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/testwait"
)

const (
	rolledBack = "store_rolled_back"
	// exitData: the folder shows less than it did.
	exitData = 65
)

// copyOf copies a data folder, of which no server is running.
func copyOf(t *testing.T, data string) string {
	t.Helper()
	to := data + ".before"
	if err := os.CopyFS(to, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	return to
}

// putBack replaces a data folder by an earlier copy.
func putBack(t *testing.T, data, earlier string) {
	t.Helper()
	if err := os.Rename(data, data+".lost"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(earlier, data); err != nil {
		t.Fatal(err)
	}
}

// awaitEvent waits for an event of a kind and returns it.
func awaitEvent(t *testing.T, c *pawl.Client, kind pawl.EventKind) pawl.Event {
	t.Helper()
	for limit := time.After(bound); ; {
		select {
		case e, open := <-c.Events():
			if !open {
				t.Fatal("the client was closed")
			}
			if e.Kind == kind {
				return e
			}
		case <-limit:
			t.Fatalf("the client tells no %q", kind)
		}
	}
}

// alarmed says where a server does not tell of a roll-back.
func (s *server) alarmed() (silent []string) {
	s.t.Helper()
	_, status := s.get("/v1/status")
	_, metrics := s.get("/metrics")
	for _, place := range []struct {
		name, text, part string
	}{
		{"the log", s.said(), rolledBack},
		{"/v1/status", status, `"` + rolledBack + `":true`},
		{"/metrics", metrics, "pawl_" + rolledBack + " 1\n"},
		{"pawl status", s.want(0, "status").stdout, rolledBack},
		{"pawl status --json", s.want(0, "status", "--json").stdout, `"` + rolledBack + `":true`},
	} {
		if !strings.Contains(place.text, place.part) {
			silent = append(silent, place.name)
		}
	}
	return silent
}

// A data folder is put back under a stopped server (issue: from a backup, say).
// Nothing in the folder shows it: what clients have seen does.
func TestFolderPutBackUnderAStoppedServer(t *testing.T) {
	for _, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(how.String(), func(t *testing.T) {
			s := newServer(t)
			s.up()
			// It saw nothing that gets lost, and must not be disturbed.
			bystander := dial(t, s.link, 5*time.Minute)
			kept := acquire(t, bystander, "kept")
			holder := dial(t, s.link, 5*time.Minute)
			old := acquire(t, holder, "old")
			if code := s.stop(syscall.SIGTERM); code != 0 {
				t.Fatalf("a clean stop ended with %d:\n%s", code, s.said())
			}
			earlier := copyOf(t, s.data)

			s.up()
			highest := old.Token()
			var gone []*pawl.Lease
			for i := range 20 {
				l := acquire(t, holder, fmt.Sprintf("later/%d", i))
				if l.Token() <= highest {
					t.Fatalf("the token %d came after %d", l.Token(), highest)
				}
				highest = l.Token()
				gone = append(gone, l)
			}
			if silent := s.alarmed(); len(silent) != 5 {
				t.Errorf("a roll-back is told before there was one: %v are silent", silent)
			}
			s.stop(how)
			putBack(t, s.data, earlier)
			s.up()

			e := awaitEvent(t, holder, pawl.StoreRolledBack)
			if !errors.Is(e.Err, pawl.ErrStoreRolledBack) {
				t.Errorf("the event's error is %v", e.Err)
			}
			testwait.Until(t, bound, "everybody is told of the roll-back", func() bool { return len(s.alarmed()) == 0 })
			rises(t, s, bystander, &highest, "new")
			rises(t, s, holder, &highest, "later/3")
			for _, l := range []*pawl.Lease{kept, old} {
				if err := l.Check(t.Context()); err != nil {
					t.Errorf("the lease of %q, which the folder holds: %v", l.Name(), err)
				}
			}
			for _, l := range gone {
				select {
				case <-l.Context().Done():
				case <-time.After(bound):
					t.Errorf("the lease of %q is in no log and not lost", l.Name())
				}
			}
			// It does not stop at the next restart either.
			s.stop(syscall.SIGKILL)
			s.up()
			rises(t, s, bystander, &highest, "newer")
		})
	}
}

// rises acquires by the SDK and over the command line, and expects tokens above
// all that was ever granted.
func rises(t *testing.T, s *server, c *pawl.Client, highest *guard.Token, name string) {
	t.Helper()
	l := acquire(t, c, name)
	r := s.want(0, "acquire", name+"/by-command", "--ttl", "1h")
	second, err := guard.ParseToken(read[struct {
		Token string `json:"fencing_token"`
	}](t, r.stdout).Token)
	if err != nil {
		t.Fatal(err)
	}
	if l.Token() <= *highest || second <= l.Token() {
		t.Errorf("after %d came %d, then %d", *highest, l.Token(), second)
	}
	*highest = max(*highest, l.Token(), second)
}

// The store alone is put back, and what lies beside it is not.
func TestStorePutBackUnderAStoppedServer(t *testing.T) {
	s := newServer(t)
	s.up()
	acquire(t, dial(t, s.link, time.Minute), "a")
	s.stop(syscall.SIGTERM)
	earlier := copyOf(t, s.data+"/etcd")
	s.up()
	load(t, dial(t, s.link, time.Minute), 8, 20)
	s.stop(syscall.SIGTERM)
	putBack(t, s.data+"/etcd", earlier)
	s.launch()
	code := s.end()
	last := lastLine(s)
	t.Logf("it ended with %d: %s", code, last)
	if code != exitData || !strings.Contains(last, rolledBack) {
		t.Errorf("over a store that shows less than it did the server ended with %d:\n%s", code, s.said())
	}
}

// A folder is swapped under a running server, which would go on acknowledging
// into files that nobody finds again.
func TestFolderSwappedUnderARunningServer(t *testing.T) {
	for _, what := range []string{"an earlier copy", "an empty folder", "nothing"} {
		t.Run(what, func(t *testing.T) {
			s := newServer(t)
			s.up()
			s.want(0, "acquire", "a", "--ttl", "1h")
			s.stop(syscall.SIGTERM)
			earlier := copyOf(t, s.data)
			s.up()
			c := dial(t, s.link, time.Minute)
			acquire(t, c, "b")
			switch what {
			case "an earlier copy":
				putBack(t, s.data, earlier)
			case "an empty folder":
				if err := os.RemoveAll(earlier); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(earlier, 0o700); err != nil {
					t.Fatal(err)
				}
				putBack(t, s.data, earlier)
			default:
				if err := os.Rename(s.data, s.data+".lost"); err != nil {
					t.Fatal(err)
				}
			}
			code := s.end()
			last := lastLine(s)
			t.Logf("it ended with %d: %s", code, last)
			if code != exitData || !strings.Contains(last, rolledBack) || !strings.HasPrefix(last, "pawl serve: ") {
				t.Errorf("the server ended with %d:\n%s", code, s.said())
			}
		})
	}
}

func lastLine(s *server) string {
	lines := strings.Split(strings.TrimSpace(s.said()), "\n")
	return lines[len(lines)-1]
}
