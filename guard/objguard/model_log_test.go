package objguard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

// play is a run of several processes on one log. Each of their requests waits until the
// play lets it go on, so that the order is the seed's alone. What is in the log is told
// from what lands in the bucket, not from what anybody reads.
type play struct {
	*buckettest.Memory
	rnd *rand.Rand

	mu      sync.Mutex
	waiting map[int]chan buckettest.Fate // by process
	late    []func()
	log     []landed    // the records that were ever in the log, by slot, from 1
	claimed guard.Token // the highest of a claim that returned nil
	told    []told
	faults  []error

	versions []landed        // of the pointer that ever were, from 1
	named    map[string]bool // the keys that the last one names
}

// landed is a record that came into the log.
type landed struct {
	op    int
	token guard.Token
	text  string
	fence bool
}

// told is what an operation was told.
type told struct {
	what    string
	token   guard.Token
	slot    uint64
	err     error
	crashed bool
}

const (
	logFolder = "g/orders=2F7/log/"
	logMark   = "g/orders=2F7/pawl=log-pointer"
)

func (p *play) fault(format string, a ...any) { p.faults = append(p.faults, fmt.Errorf(format, a...)) }

// firstLine reads the header of an object; the zero one where there is none.
func (p *play) firstLine(key string) (h struct {
	Boundary uint64
	Fence    bool
},
) {
	o, err := p.Memory.Get(context.Background(), key)
	if err != nil {
		return h
	}
	body, _ := io.ReadAll(o.Body)
	line, _, _ := bytes.Cut(body, []byte{'\n'})
	if err := json.Unmarshal(line, &h); err != nil {
		p.fault("%s: %w", key, err)
	}
	return h
}

// land lets a write of an operation take effect and looks what it has done to the log.
func (p *play) land(op int, key string, body []byte, c objguard.Condition) (string, error) {
	tag, err := p.Memory.Put(context.Background(), key, bytes.NewReader(body), int64(len(body)), c)
	if err == nil && key == pointerKey {
		p.landVersion(op, body)
	}
	if err != nil || !strings.HasPrefix(key, logFolder) {
		return tag, err
	}
	n, _ := strconv.ParseUint(strings.TrimPrefix(key, logFolder), 10, 64)
	if n <= p.firstLine(logMark).Boundary {
		return tag, nil // an orphan
	}
	_, text, _ := strings.Cut(string(body), "\n")
	r := landed{op, p.told[op].token, text, p.firstLine(key).Fence}
	switch {
	case n != uint64(len(p.log))+1:
		p.fault("%q landed in slot %d, the last one is %d", text, n, len(p.log))
		return tag, nil
	case r.token < p.claimed:
		p.fault("%q of token %d landed in slot %d after token %d had claimed", text, r.token, n, p.claimed)
	case n > 1 && r.token < p.log[n-2].token:
		p.fault("%q of token %d landed in slot %d behind token %d", text, r.token, n, p.log[n-2].token)
	}
	p.log = append(p.log, r)
	return tag, nil
}

// process is one process: its requests are of the operation that it is in.
type process struct {
	*play
	id, op int
}

// crash is the fate of a process.
const crash = buckettest.Fates

var errCrash = errors.New("the process is gone")

// stop waits until the request may go on.
func (p *process) stop() buckettest.Fate {
	ch := make(chan buckettest.Fate)
	p.mu.Lock()
	crashed := p.told[p.op].crashed
	if !crashed {
		p.waiting[p.id] = ch
	}
	p.mu.Unlock()
	if crashed {
		return crash
	}
	fate := <-ch
	p.mu.Lock()
	defer p.mu.Unlock()
	if fate == crash && p.op > 0 {
		p.told[p.op].crashed = true
	}
	return fate
}

func (p *process) write(do func() error) error {
	fate := p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if fate == buckettest.Served || fate == buckettest.Unanswered || fate == buckettest.Twice {
		err = do()
	}
	if fate == buckettest.Late || fate == buckettest.Twice {
		p.late = append(p.late, func() { _ = do() })
	}
	switch fate {
	case crash:
		return errCrash
	case buckettest.Served, buckettest.Twice:
		return err
	}
	return guard.ErrUnknown
}

func (p *process) Put(_ context.Context, key string, body io.ReadSeeker, _ int64, c objguard.Condition) (tag string, err error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	op := p.op
	err = p.write(func() error { tag, err = p.land(op, key, text, c); return err })
	return tag, err
}

func (p *process) Delete(ctx context.Context, key string) error {
	return p.write(func() error {
		if p.named[key] {
			p.fault("%s was deleted, the pointer names it", key)
		}
		return p.Memory.Delete(ctx, key)
	})
}

func (p *process) Get(ctx context.Context, key string) (objguard.Object, error) {
	if p.stop() == crash {
		return objguard.Object{}, errCrash
	}
	return p.Memory.Get(ctx, key)
}

// List looks at one key after the other: what others write and delete meanwhile is in it or
// not, each for itself.
func (p *process) List(ctx context.Context, prefix, after string) ([]string, bool, error) {
	if p.stop() == crash {
		return nil, false, errCrash
	}
	first, more, err := p.Memory.List(ctx, prefix, after)
	if err != nil {
		return nil, false, err
	}
	if p.stop() == crash {
		return nil, false, errCrash
	}
	then, _, err := p.Memory.List(ctx, prefix, after)
	seam := logFolder + fmt.Sprintf("%020d", someSlot(p.play))
	var keys []string
	for _, key := range first {
		if key <= seam {
			keys = append(keys, key)
		}
	}
	for _, key := range then {
		if key > seam && (!more || key <= first[len(first)-1]) {
			keys = append(keys, key)
		}
	}
	return keys, more, err
}

// someSlot is a slot somewhere in the log.
func someSlot(p *play) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rnd.IntN(len(p.log) + 1)
}

// begin begins an operation; its text is like no other's.
func (p *process) begin(what string, token guard.Token) (text string) {
	p.op = 0
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.op = len(p.told)
	p.told = append(p.told, told{what: what, token: token})
	return fmt.Sprintf("%s %d of %d", what, p.op, token)
}

// end notes what the operation was told, and whether the process is gone.
func (p *process) end(slot uint64, err error) (gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &p.told[p.op]
	t.slot, t.err = slot, err
	if err == nil && t.what == "claim" {
		p.claimed = max(p.claimed, t.token)
	}
	return t.crashed
}

// onLog does some operations of one process.
func onLog(p *process, seed uint64, token guard.Token) {
	rnd := rand.New(rand.NewPCG(seed, uint64(token)))
	l := objguard.New(p, "g").Log(resource)
	ctx := context.Background()
	for range 1 + rnd.IntN(4) {
		what := []string{"append", "append", "append", "claim", "truncate", "read"}[rnd.IntN(6)]
		text := p.begin(what, token)
		var slot uint64
		var err error
		switch what {
		case "append":
			slot, err = l.Append(ctx, holder(token), []byte(text))
		case "claim":
			err = l.Claim(ctx, holder(token))
		case "truncate":
			var page objguard.Page
			if err = l.Claim(ctx, holder(token)); err == nil {
				p.mu.Lock()
				p.claimed = max(p.claimed, token)
				p.mu.Unlock()
				if page, err = p.read(l); err == nil && page.Next > 1 {
					_, err = l.Truncate(ctx, holder(token), page.Next-1)
				}
			}
		case "read":
			_, err = p.read(l)
		}
		if p.end(slot, err) {
			return
		}
	}
}

// read reads the log from its beginning, and looks whether that is what is in it.
func (p *process) read(l *objguard.Log) (objguard.Page, error) {
	page, err := l.Read(context.Background(), 0)
	if err != nil {
		return page, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compare(page)
	return page, nil
}

// compare compares a page with the log.
func (p *play) compare(page objguard.Page) {
	if len(page.Records) == 0 {
		return
	}
	var want, got []string
	for n := page.Records[0].Slot; n < page.Next; n++ {
		if r := p.log[n-1]; !r.fence {
			want = append(want, fmt.Sprintf("%d: %s", n, r.text))
		}
	}
	for _, r := range page.Records {
		got = append(got, fmt.Sprintf("%d: %s", r.Slot, r.Data))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.fault("%q was read, the log is %q", got, want)
	}
}

// judge compares what everybody was told with the log.
func (p *play) judge() error {
	rest, err := objguard.New(p.Memory, "g").Log(resource).Read(context.Background(), 0)
	if err != nil {
		p.fault("the last read: %w", err)
	}
	p.compare(rest)
	if end := max(p.firstLine(logMark).Boundary, rest.Next-1); end != uint64(len(p.log)) {
		p.fault("the log ends at slot %d, it should at %d", end, len(p.log))
	}
	for op, t := range p.told {
		slots := []uint64{}
		for i, r := range p.log {
			if r.op == op && r.fence == (t.what != "append") {
				slots = append(slots, uint64(i)+1)
			}
		}
		right := len(slots) <= 1
		switch {
		case t.crashed, op == 0:
		case t.what == "read":
			right = t.err == nil || errors.Is(t.err, objguard.ErrTruncated)
		case t.what == "truncate":
			right = t.err == nil || errors.Is(t.err, guard.ErrStale) || errors.Is(t.err, guard.ErrUnknown) || errors.Is(t.err, objguard.ErrTruncated)
		case t.err == nil && t.what == "append":
			right = len(slots) == 1 && slots[0] == t.slot
		case t.err == nil, errors.Is(t.err, guard.ErrUnknown):
		default:
			right = len(slots) == 0
		}
		if !right {
			p.fault("%s %d of token %d is in the slots %d, it was told %d, %v", t.what, op, t.token, slots, t.slot, t.err)
		}
	}
	return errors.Join(p.faults...)
}

// fates are those of a write; mostly it is served.
var writeFates = []buckettest.Fate{
	buckettest.Served, buckettest.Served, buckettest.Served, buckettest.Served, buckettest.Served, buckettest.Served,
	buckettest.Served, buckettest.Served, buckettest.Twice, buckettest.Lost, buckettest.Unanswered, buckettest.Late, buckettest.Late, crash,
}

// playOf runs processes of three holders, one after another and at the same time.
func playOf(seed uint64, run func(p *process, seed uint64, token guard.Token)) *play {
	rnd := rand.New(rand.NewPCG(seed, 3))
	p := &play{Memory: &buckettest.Memory{PageMax: 1 + rnd.IntN(4)}, rnd: rnd, waiting: map[int]chan buckettest.Fate{}, told: make([]told, 1)} // operations are counted from 1
	served := rnd.IntN(3)                                                                                                                      // some runs lose less
	silent := rnd.IntN(4)                                                                                                                      // and in some the writes of one process are hardly answered
	var wg sync.WaitGroup
	for i := range 3 + rnd.IntN(3) {
		c := &process{play: p, id: i}
		token := guard.Token(1 + i%3)
		pause := time.Duration(rnd.IntN(3)) * time.Second
		wg.Go(func() {
			time.Sleep(pause) //tidy:bubble only called in bubbles
			run(c, seed*100+uint64(i), token)
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	for idle := 0; ; {
		synctest.Wait()
		select {
		case <-over:
			for _, land := range p.late {
				land()
			}
			return p
		default:
		}
		p.mu.Lock()
		switch n := len(p.waiting); {
		case len(p.late) > 0 && rnd.IntN(6) == 0:
			i := rnd.IntN(len(p.late))
			land := p.late[i]
			p.late = append(p.late[:i], p.late[i+1:]...)
			land()
			p.mu.Unlock()
		case n == 0, idle == 0 && rnd.IntN(20) == 0:
			idle = 5
			p.mu.Unlock()
			time.Sleep(300 * time.Millisecond) //tidy:bubble only called in bubbles
		default:
			idle = max(idle-1, 0)
			i := slices.Sorted(maps.Keys(p.waiting))[rnd.IntN(n)]
			ch := p.waiting[i]
			delete(p.waiting, i)
			p.mu.Unlock()
			fate := writeFates[rnd.IntN(len(writeFates))]
			switch {
			case i == silent && rnd.IntN(4) > 0:
				fate = []buckettest.Fate{buckettest.Late, buckettest.Lost}[rnd.IntN(2)]
			case rnd.IntN(3) < served || fate == crash && rnd.IntN(10) > 0:
				fate = buckettest.Served
			}
			ch <- fate
		}
	}
}

// Three holders, some with two processes, claim, append, truncate and read at the same time;
// their writes are lost, late and repeated, and some crash.
func TestLogOfThreeHolders(t *testing.T) {
	plays := uint64(2000)
	if testing.Short() {
		plays = 500
	}
	outcomes := map[string]int{}
	var faults []string
	for seed := range plays {
		synctest.Test(t, func(t *testing.T) {
			p := playOf(seed, onLog)
			if err := p.judge(); err != nil {
				faults = append(faults, fmt.Sprintf("seed %d: %v", seed, err))
			}
			for _, o := range p.told {
				outcomes[o.what+" "+outcome(o.err)]++
			}
		})
	}
	t.Log(outcomes)
	for _, f := range faults[:min(len(faults), 20)] {
		t.Error(f)
	}
	for _, o := range []string{"append done", "append stale", "append unknown", "claim done", "claim stale", "claim unknown", "truncate done", "read done"} {
		if outcomes[o] == 0 {
			t.Errorf("%s: never, %v", o, outcomes)
		}
	}
}
