package buckettest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/objguard"
)

// What happens at one write of the old holder in a [Schedule], besides the fates. All of
// it but NewHolderThen comes before the write.
const (
	PeerWrites    = Fates + iota // another process of the same lease
	ManyWrite                    // so often that a pointer no longer names the version before
	NewHolder                    // claims, writes and cleans up
	LateArrives                  // the earliest write that is late
	NewHolderThen                // as NewHolder, but after the write, before the old holder reads again
	Happenings                   // how many there are, with the fates
)

// manyWrites is more than a pointer names of its ancestors.
const manyWrites = 17

// Schedule is what happens at the old holder's writes, one after the other; then all are
// served.
type Schedule []Fate

// Faults is what loses, delays and repeats the writes of a bucket.
type Faults interface {
	// Set sets what is asked for the fate of each write; nil: all are served.
	Set(fate func() Fate)
	// Deliver lets writes arrive that are late, up to n of them, the earliest first.
	Deliver(n int)
}

// Played is a schedule that was run.
type Played struct {
	// Told is what everybody was told, by text.
	Told map[string]error

	ctx      context.Context
	guard    objguard.Guard
	resource string
	kind     string
	list     guardtest.Resource
	kept     []string // what was truncated

	own     bool   // a write is the old holder's
	then    func() // comes before the old holder's next read
	claimed bool
	errs    []error
}

// Play runs appends of an old holder to a list of a kind (see [Lists]) under a schedule.
// Then a new holder takes over, and everything arrives that is late. The resource is one
// that nothing was written to.
func Play(ctx context.Context, b objguard.Bucket, prefix string, faults Faults, kind, resource string, s Schedule, appends int) *Played {
	g := objguard.New(b, prefix)
	p := &Played{Told: map[string]error{}, ctx: ctx, guard: g, resource: resource, kind: kind, list: Lists(g, nil)[kind]}
	step := 0
	faults.Set(func() Fate {
		if !p.own || step == len(s) {
			return Served
		}
		fate := s[step]
		step++
		if fate < Fates {
			return fate
		}
		p.own = false
		defer func() { p.own = true }()
		switch fate {
		case PeerWrites:
			p.append(1, "peer", p.list.Append)
		case ManyWrite:
			for range manyWrites {
				p.append(1, "peer", p.list.Append)
			}
		case NewHolder:
			p.takeOver()
		case LateArrives:
			faults.Deliver(1)
		case NewHolderThen:
			p.then = p.takeOver
		}
		return Served
	})
	old := p.remembers(objguard.New(reading{b, p}, prefix))
	for range appends {
		p.own = true
		p.append(1, "old", old)
		p.own = false
	}
	faults.Deliver(lateMax)
	p.then = nil
	p.takeOver()
	faults.Deliver(lateMax)
	faults.Set(nil)
	return p
}

// lateMax is more writes than a schedule has.
const lateMax = 1 << 20

func (p *Played) fence(t guard.Token) guard.Fence {
	return guard.Fence{Resource: p.resource, Token: t, Cell: "test-00000000000000aa"}
}

// remembers appends through one handle, which remembers what it wrote last.
func (p *Played) remembers(g objguard.Guard) func(context.Context, guard.Fence, string) error {
	l, pointer := g.Log(p.resource), g.Pointer(p.resource)
	switch p.kind {
	case "log":
		return func(ctx context.Context, f guard.Fence, text string) error {
			_, err := l.Append(ctx, f, []byte(text))
			return err
		}
	case "update":
		return func(ctx context.Context, f guard.Fence, text string) error {
			return pointer.Update(ctx, f, adds(text))
		}
	}
	return Lists(g, nil)[p.kind].Append
}

// reading is the bucket as the old holder reads it.
type reading struct {
	objguard.Bucket
	p *Played
}

func (r reading) Get(ctx context.Context, key string) (objguard.Object, error) {
	if then := r.p.then; then != nil {
		r.p.then, r.p.own = nil, false
		then()
		r.p.own = true
	}
	return r.Bucket.Get(ctx, key)
}

func (p *Played) append(t guard.Token, who string, by func(context.Context, guard.Fence, string) error) {
	text := fmt.Sprintf("%s %d", who, len(p.Told)+1)
	p.Told[text] = nil // its number is taken, whatever comes between
	p.Told[text] = by(p.ctx, p.fence(t), text)
}

func (p *Played) takeOver() {
	p.claimed = true
	p.errs = append(p.errs, p.list.Claim(p.ctx, p.fence(2)))
	p.append(2, "new", p.list.Append)
	switch p.kind {
	case "commit":
		_, err := p.guard.Pointer(p.resource).Sweep(p.ctx, p.fence(2))
		p.errs = append(p.errs, err)
	case "log":
		p.errs = append(p.errs, p.truncate())
	}
}

// truncate takes away all that is there, as a new holder may.
func (p *Played) truncate() error {
	l := p.guard.Log(p.resource)
	page, err := l.Read(p.ctx, 0)
	if err != nil || len(page.Records) == 0 {
		return err
	}
	for _, r := range page.Records {
		p.kept = append(p.kept, string(r.Data))
	}
	_, err = l.Truncate(p.ctx, p.fence(2), page.Next-1)
	return err
}

// Judge returns nil when what everybody was told is true, and nothing of the old holder's
// took effect after the new one's.
func (p *Played) Judge() error {
	if err := errors.Join(p.errs...); err != nil {
		return fmt.Errorf("the new holder: %w", err)
	}
	rest, err := p.list.Read(p.ctx, p.resource)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	all := append(p.kept, rest...)
	taken := false
	for _, text := range all {
		if taken = taken || strings.HasPrefix(text, "new"); taken && !strings.HasPrefix(text, "new") {
			return fmt.Errorf("%q took effect after the new holder's: %q", text, all)
		}
	}
	for text, err := range p.Told {
		n := len(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s != text }))
		old := strings.HasPrefix(text, "old")
		ok := false
		switch {
		case err == nil:
			ok = n == 1
		case errors.Is(err, guard.ErrStale):
			ok = n == 0 && p.claimed && !strings.HasPrefix(text, "new")
		case errors.Is(err, guard.ErrUnknown):
			ok = n <= 1 && old && !errors.Is(err, objguard.ErrReset)
		default: // an upload failed
			ok = n == 0 && old && p.kind == "commit"
		}
		if !ok {
			return fmt.Errorf("%q is in the list %d times and was told %v: %q", text, n, err, all)
		}
	}
	return nil
}
