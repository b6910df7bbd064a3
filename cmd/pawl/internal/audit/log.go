package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/termsafe"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
)

// QueueMax bounds the lines that wait to be written.
const QueueMax = 1 << 16

const (
	// refusedMax bounds the lines per second about refusals to one identity and its
	// sessions that held nothing, and about all callers that were not authenticated.
	// Requests cost nothing, so they must not be able to fill a disk, or to stop the
	// grants of others when the log is required. The rest is counted in one line.
	refusedMax = 100
	// queuedMax bounds the bytes of the lines that wait to be written.
	queuedMax = 64 << 20
	// textMax bounds the bytes of each text of a line, namesMax the number of its
	// names. Nothing that is granted or done has more; what is refused may.
	textMax  = bounds.ReasonMax
	namesMax = bounds.NamesMax
	// burstMax bounds the bytes that are written at once.
	burstMax = 1 << 20
	// tryAgain is the pause after a line that could not be written, writeMax how long
	// a pipe may take to be read before it counts as one.
	tryAgain = time.Second
	writeMax = 2 * time.Second
)

// Options of a Log.
type Options struct {
	Path string
	// Required: Able tells whether the file can be written.
	Required bool
	Clock    clock.Clock
	Logger   *slog.Logger
}

// Log is an audit log. Its methods may be called by several goroutines.
type Log struct {
	o    Options
	lost atomic.Uint64
	ill  atomic.Bool

	mu     sync.Mutex
	queue  []entry
	bytes  int    // of the queue
	missed uint64 // of what is lost, what no line in the file tells yet
	// refused counts the refusals in this second, by who asked.
	second  int64
	refused map[asker]int
	reopen  bool
	closed  bool

	ready chan struct{}
	done  chan struct{}
	file  file
	// torn: the file may end within a line.
	torn bool
}

// file is what lines are written to; an *os.File.
type file interface {
	io.Writer
	io.Closer
}

type entry struct {
	at     time.Time
	record access.AuditRecord
}

// asker is an identity, or all who were not let in.
type asker struct {
	identity        string
	unauthenticated bool
}

// Open opens the file at the end, and creates it for its owner alone.
func Open(o Options) (*Log, error) {
	f, err := openFile(o.Path, o.Clock)
	if err != nil {
		return nil, err
	}
	l := &Log{o: o, refused: map[asker]int{}, ready: make(chan struct{}, 1), done: make(chan struct{}), file: f}
	go l.run()
	return l, nil
}

func openFile(path string, k clock.Clock) (file, error) {
	// Opened so, a pipe that nobody reads is an error instead of waited for.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return bounded{f, k}, nil
}

// bounded is a file that may be a pipe: its reader must not hold up what
// waits for the log to end.
type bounded struct {
	*os.File
	clock clock.Clock
}

// Write implements io.Writer.
func (f bounded) Write(b []byte) (int, error) {
	_ = f.SetWriteDeadline(f.clock.Wall().Add(writeMax)) // what is not a pipe has no deadline
	return f.File.Write(b)
}

// Record implements access.AuditLog.
func (l *Log) Record(d access.AuditRecord) {
	at := l.o.Clock.Wall()
	size := fit(&d)
	l.mu.Lock()
	if !l.wanted(at, d) {
		l.mu.Unlock()
		return
	}
	full := l.closed || len(l.queue) >= QueueMax || l.bytes+size > queuedMax
	if full {
		l.missed++
	} else {
		l.queue = append(l.queue, entry{at, d})
		l.bytes += size
	}
	l.mu.Unlock()
	if full {
		l.lose(1, errors.New("more happens than can be written"))
		return
	}
	l.wake()
}

// wanted reports whether a record gets a line. The one that begins a second brings
// what was left out before.
func (l *Log) wanted(at time.Time, d access.AuditRecord) bool {
	if now := at.Unix(); now != l.second {
		for _, who := range slices.SortedFunc(maps.Keys(l.refused), func(a, b asker) int { return cmp.Compare(a.identity, b.identity) }) {
			n := l.refused[who] - refusedMax
			if n <= 0 {
				continue
			}
			if len(l.queue) >= QueueMax {
				l.missed += uint64(n)
				continue
			}
			rest := access.AuditRecord{Identity: who.identity, Verb: "refused", Outcome: "refused", Count: n}
			if who.unauthenticated {
				rest.Verb, rest.Outcome = "strangers", string(locktable.Unauthenticated)
			}
			l.queue = append(l.queue, entry{at, rest})
		}
		l.second = now
		clear(l.refused)
	}
	if !refusals[locktable.Reason(d.Outcome)] && !d.Idle {
		return true
	}
	who := asker{d.Identity, d.Outcome == string(locktable.Unauthenticated)}
	l.refused[who]++
	return l.refused[who] <= refusedMax
}

// refusals are the outcomes of what was asked for and changed nothing.
var refusals = map[locktable.Reason]bool{
	locktable.Unauthenticated: true, locktable.Denied: true, locktable.Invalid: true, locktable.Gone: true,
	locktable.Held: true, locktable.Conflict: true, locktable.TokenMismatch: true, locktable.Exhausted: true,
	locktable.Unavailable: true,
}

// fit cuts what is longer than anything that is granted, and returns about how many
// bytes a line takes.
func fit(d *access.AuditRecord) (size int) {
	size = 256
	for _, text := range []*string{&d.Identity, &d.Remote, &d.Verb, &d.Outcome, &d.Handle, &d.Reason, &d.Detail} {
		*text = cut(*text)
		size += len(*text)
	}
	if len(d.Names) > namesMax {
		d.Names = slices.Clone(d.Names[:namesMax])
	}
	for i, name := range d.Names {
		if len(name) > textMax {
			d.Names = slices.Clone(d.Names) // others read it
			d.Names[i] = cut(name)
		}
		size += len(d.Names[i])
	}
	return size
}

func cut(s string) string {
	if len(s) <= textMax {
		return s
	}
	return strings.ToValidUTF8(s[:textMax], "") + "…"
}

// Writable implements access.AuditLog.
func (l *Log) Writable() bool { return !l.o.Required || !l.ill.Load() }

// Lost is how many lines were lost.
func (l *Log) Lost() uint64 { return l.lost.Load() }

// Failing reports whether the file could not be written last.
func (l *Log) Failing() bool { return l.ill.Load() }

// Reopen has the next line written to whatever file is at the path then.
func (l *Log) Reopen() {
	l.mu.Lock()
	l.reopen = true
	l.mu.Unlock()
	l.wake()
}

// Close writes what waits, and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wake()
	<-l.done
	return l.file.Close()
}

func (l *Log) wake() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// lose counts lines, and says so when it begins.
func (l *Log) lose(n uint64, why error) {
	l.lost.Add(n)
	if l.ill.CompareAndSwap(false, true) {
		l.o.Logger.Error("audit log: lines are lost", "path", l.o.Path, "required", l.o.Required, "error", why)
	}
}

func (l *Log) run() {
	defer close(l.done)
	again := l.o.Clock.NewTimer()
	defer again.Stop()
	var spare []entry
	for {
		select {
		case <-l.ready:
		case <-again.C():
		}
		l.mu.Lock()
		lines, missed, reopen, closed := l.queue, l.missed, l.reopen, l.closed
		l.queue, l.bytes, l.missed, l.reopen = spare[:0], 0, 0, false
		l.mu.Unlock()
		if reopen {
			l.swap()
		}
		if !l.write(lines, missed) {
			again.Reset(tryAgain)
		}
		clear(lines)
		spare = lines
		if closed {
			return
		}
	}
}

// swap goes on in a new file; if there is none to be had, in the old one.
func (l *Log) swap() {
	f, err := openFile(l.o.Path, l.o.Clock)
	if err != nil {
		l.o.Logger.Error("audit log: it goes on in the file it had", "error", err)
		return
	}
	_ = l.file.Close() // every line of it was written
	l.file = f
	l.o.Logger.Info("audit log: opened again", "path", l.o.Path)
}

// write writes lines behind one about those that are missing; false: there is
// something to tell yet.
func (l *Log) write(lines []entry, missed uint64) bool {
	var b bytes.Buffer
	if l.torn {
		b.WriteByte('\n')
	}
	if missed > 0 {
		fmt.Fprintf(&b, `{"time":%q,"verb":"lost","count":%d}`+"\n", l.o.Clock.Wall().UTC().Format(time.RFC3339Nano), missed)
	}
	n := missed
	for len(lines) > 0 || b.Len() > 0 {
		for len(lines) > 0 && b.Len() < burstMax {
			encode(&b, lines[0])
			lines = lines[1:]
			n++
		}
		if _, err := l.file.Write(b.Bytes()); err != nil {
			l.torn = true
			l.lose(n-missed+uint64(len(lines)), err)
			l.mu.Lock()
			l.missed += n + uint64(len(lines))
			l.mu.Unlock()
			return false
		}
		b.Reset()
		n, missed, l.torn = 0, 0, false
		if l.ill.CompareAndSwap(true, false) {
			l.o.Logger.Info("audit log: written again", "lost", l.lost.Load())
		}
	}
	return true
}

// shown is a line of the file.
type shown struct {
	Time     string   `json:"time"`
	Identity string   `json:"identity"`
	Remote   string   `json:"remote,omitempty"`
	Verb     string   `json:"verb"`
	Names    []string `json:"names,omitempty"`
	Token    string   `json:"fencing_token,omitempty"`
	Holder   string   `json:"holder,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Outcome  string   `json:"outcome"`
	Detail   string   `json:"detail,omitempty"`
	Leases   int      `json:"leases,omitempty"`
	Count    int      `json:"count,omitempty"`
}

func encode(b *bytes.Buffer, x entry) {
	d := x.record
	s := shown{
		Time: x.at.UTC().Format(time.RFC3339Nano), Identity: d.Identity, Remote: d.Remote, Verb: d.Verb, Names: d.Names,
		Holder: d.Handle, Reason: d.Reason, Outcome: d.Outcome, Detail: d.Detail, Leases: d.Leases, Count: d.Count,
	}
	if d.Token != 0 {
		s.Token = strconv.FormatUint(d.Token, 10)
	}
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // texts and numbers only
	b.Write(termsafe.JSON(raw.Bytes()))
}
