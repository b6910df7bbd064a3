package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
)

func open(t *testing.T, path string, required bool) *Log {
	t.Helper()
	l, err := Open(Options{Path: path, Required: required, Clock: clock.Bubble(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func lines(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var v map[string]any
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Errorf("%q: %v", s.Text(), err)
		}
		all = append(all, v)
	}
	return all
}

func TestFieldsOfAuditRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path, false)
	l.Record(access.AuditRecord{
		Identity: "root", Remote: "10.0.0.9:1", Verb: "break", Names: []string{"a\n", "<b>"}, Token: 1<<53 - 1, Handle: "h", Reason: "why", Outcome: "ended",
	})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const rest = `"identity":"root","remote":"10.0.0.9:1","verb":"break","names":["a\n","<b>"],"fencing_token":"9007199254740991","holder":"h","reason":"why","outcome":"ended"}` + "\n"
	if !strings.HasSuffix(string(raw), rest) || !strings.HasPrefix(string(raw), `{"time":"2`) {
		t.Errorf("%s", raw)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

func TestAuditFileIsReopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := open(t, path, false)
		l.Record(access.AuditRecord{Verb: "one"})
		synctest.Wait()
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		l.Record(access.AuditRecord{Verb: "two"})
		synctest.Wait()
		l.Reopen()
		synctest.Wait()
		l.Record(access.AuditRecord{Verb: "three"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if a, b := lines(t, path+".1"), lines(t, path); len(a) != 2 || len(b) != 1 || b[0]["verb"] != "three" {
			t.Errorf("%v and %v", a, b)
		}
	})
}

// disk is a file on a disk that can be full, in the middle of a line.
type disk struct {
	file
	mu   sync.Mutex
	full bool
}

func (d *disk) fill(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

func (d *disk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		n, _ := d.file.Write(b[:len(b)/2])
		return n, errors.New("no space left on device")
	}
	return d.file.Write(b)
}

// A full disk stops nothing but what needs the log; what was lost is counted, and
// stands in the file when there is room again.
func TestFullDiskCountsLostRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := open(t, path, true)
		d := &disk{file: l.file}
		l.file = d
		l.Record(access.AuditRecord{Verb: "before"})
		synctest.Wait()
		d.fill(true)
		for range 3 {
			l.Record(access.AuditRecord{Verb: "lost one"})
			synctest.Wait()
		}
		if l.Writable() || !l.Failing() || l.Lost() != 3 {
			t.Errorf("able %t, failing %t, %d lost", l.Writable(), l.Failing(), l.Lost())
		}
		time.Sleep(10 * tryAgain) // the bubble's
		if l.Lost() != 3 {
			t.Errorf("%d lost", l.Lost())
		}
		d.fill(false)
		time.Sleep(2 * tryAgain)
		synctest.Wait()
		if !l.Writable() || l.Failing() {
			t.Errorf("there is room again, and able %t, failing %t", l.Writable(), l.Failing())
		}
		l.Record(access.AuditRecord{Verb: "after"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{`"verb":"before"`, "\n" + `{"time":"`, `"verb":"lost","count":3}` + "\n", `"verb":"after"`} {
			if !strings.Contains(string(raw), part) {
				t.Errorf("%q is missing in\n%s", part, raw)
			}
		}
	})
}

func TestOptionalAuditLogBlocksNoGrant(t *testing.T) {
	l := &Log{}
	l.ill.Store(true)
	if !l.Writable() {
		t.Error("not able")
	}
}

// What overflows the queue is counted.
func TestFullQueueCountsLostRecords(t *testing.T) {
	l := &Log{o: Options{Clock: clock.Bubble(), Logger: slog.New(slog.DiscardHandler)}, ready: make(chan struct{}, 1)}
	for range QueueMax + 5 {
		l.Record(access.AuditRecord{Verb: "x"})
	}
	if l.Lost() != 5 || len(l.queue) != QueueMax || l.missed != 5 {
		t.Errorf("%d lost, %d wait", l.Lost(), len(l.queue))
	}
}

// A client that can reach the server can ask, and cannot fill the disk by asking.
func TestUnauthenticatedCallersAreRateLimitedInLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := open(t, path, false)
		for range refusedMax + 50 {
			l.Record(access.AuditRecord{Verb: "attach", Outcome: "unauthenticated"})
		}
		l.Record(access.AuditRecord{Verb: "acquire", Outcome: "denied"})
		time.Sleep(time.Second) // the bubble's
		l.Record(access.AuditRecord{Verb: "acquire", Outcome: "granted"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		all := lines(t, path)
		if n := len(all); n != refusedMax+3 || all[n-2]["verb"] != "strangers" || all[n-2]["count"] != 50.0 {
			t.Errorf("%d lines, the last %v", n, all[max(n-3, 0):])
		}
	})
}

// Nor can somebody who is let in, by asking for what is refused; what others do,
// and what is granted, has its lines.
func TestRefusalsAreRateLimitedInLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := open(t, path, false)
		many := slices.Repeat([]string{strings.Repeat("n", 1<<20)}, 10_000)
		for _, outcome := range []string{"denied", "gone", "invalid", "held", "exhausted"} {
			for range refusedMax {
				l.Record(access.AuditRecord{Identity: "flood", Verb: "acquire", Names: many, Reason: many[0], Outcome: outcome, Detail: many[0]})
			}
		}
		l.Record(access.AuditRecord{Identity: "flood", Verb: "acquire", Outcome: "granted"})
		l.Record(access.AuditRecord{Identity: "other", Verb: "acquire", Outcome: "denied"})
		time.Sleep(time.Second) // the bubble's
		l.Record(access.AuditRecord{Identity: "flood", Verb: "release", Outcome: "done"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l.Lost() != 0 || len(many) != 10_000 || len(many[0]) != 1<<20 {
			t.Errorf("%d lines were lost; %d names of %d bytes are left", l.Lost(), len(many), len(many[0]))
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Split(strings.TrimSpace(string(raw)), "\n")
		n := len(all)
		if n != refusedMax+4 || !strings.Contains(all[n-2], `"identity":"flood","verb":"refused","outcome":"refused","count":400`) {
			t.Errorf("%d lines, the last of them %.300q", n, all[max(n-4, 0):])
		}
		for _, line := range all {
			if limit := (namesMax + 4) * (textMax + 16); len(line) > limit {
				t.Fatalf("a line has %d bytes, more than %d", len(line), limit)
			}
		}
	})
}

// Sessions that hold nothing share the lines of what is refused; what the same
// identity is granted, or ends, has its own.
func TestEmptySessionsAreRateLimitedInLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path, true)
	for range 10 * refusedMax {
		l.Record(access.AuditRecord{Identity: "eye", Verb: "attach", Outcome: "done", Idle: true})
		l.Record(access.AuditRecord{Identity: "eye", Verb: "close", Outcome: "done", Idle: true})
	}
	l.Record(access.AuditRecord{Identity: "eye", Verb: "break", Outcome: "ended"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all := lines(t, path)
	// The clock may have gone on to another second or two.
	if n := len(all); n > 4*refusedMax || all[n-1]["verb"] != "break" {
		t.Errorf("%d lines, the last of them %v", n, all[n-1])
	}
}

// What waits is bounded by its bytes, too.
func TestQueuedRecordsAreBoundedInBytes(t *testing.T) {
	l := &Log{o: Options{Clock: clock.Bubble(), Logger: slog.New(slog.DiscardHandler)}, ready: make(chan struct{}, 1)}
	d := access.AuditRecord{Names: make([]string, namesMax), Outcome: "granted"}
	for i := range d.Names {
		d.Names[i] = strings.Repeat("n", bounds.NameMax)
	}
	for range 2 * queuedMax / (namesMax * bounds.NameMax) {
		l.Record(d)
	}
	if l.bytes > queuedMax || len(l.queue) < queuedMax/(namesMax*bounds.NameMax)-100 || l.Lost() == 0 {
		t.Errorf("%d lines of %d bytes wait, %d are lost", len(l.queue), l.bytes, l.Lost())
	}
}

// Whatever others choose for texts, it is one line each, and a terminal that shows
// the file obeys none of it.
func TestHostileTextStaysOnOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := open(t, path, false)
		text := "x\n{\"verb\":\"break\"}\r\x1b[2J\u009b2J\u2028\u202e\x7f\xff"
		l.Record(access.AuditRecord{Identity: "a", Verb: "break", Names: []string{text}, Reason: text, Detail: text, Outcome: "done"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if all := lines(t, path); len(all) != 1 || all[0]["verb"] != "break" {
			t.Errorf("%v", all)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(strings.TrimSuffix(string(raw), "\n"), func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Errorf("%q", raw)
		}
	})
}
