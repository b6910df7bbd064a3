package objguard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

const resource = "orders/7"

func holder(t guard.Token) guard.Fence {
	return guard.Fence{Resource: resource, Token: t, Cell: "test-00000000000000aa"}
}

// What happens at one request of the old holder, besides the fates of a bucket. All of it
// comes before the request.
const (
	helperWrites = buckettest.Fates + iota // another process of the same lease
	manyWrites                             // so many of them that a pointer no longer names the version before
	newHolder                              // claims and writes
	lateArrives                            // the earliest request that is late
	happenings
)

// ancestors is more than a pointer names.
const ancestors = 17

// schedule is what happens at the old holder's requests, one after the other; then all
// are served.
type schedule []buckettest.Fate

// everySchedule calls run with each schedule of a length.
func everySchedule(length int, run func(schedule)) {
	s := make(schedule, length)
	for {
		run(s)
		i := 0
		for ; i < length; i++ {
			if s[i]++; s[i] < happenings {
				break
			}
			s[i] = 0
		}
		if i == length {
			return
		}
	}
}

// played is one run of a schedule.
type played struct {
	ctx    context.Context
	bucket *buckettest.Memory
	guard  objguard.Guard
	list   guardtest.Resource
	clean  func() error // by the new holder, after its write; nil: nothing
	kept   []string     // what clean took away

	own     bool // a request is the old holder's
	claimed bool
	written int
	errs    []error
	told    map[string]error // by text
}

// play runs the old holder's four appends under a schedule, then lets everything arrive
// that is late.
func play(ctx context.Context, s schedule, kind string, clean func(*played) error) *played {
	p := &played{ctx: ctx, bucket: &buckettest.Memory{}, told: map[string]error{}}
	p.guard = objguard.New(p.bucket, "g")
	p.list = guarded[kind](p.guard, nil)
	if clean != nil {
		p.clean = func() error { return clean(p) }
	}
	step := 0
	p.bucket.Fate = func(string) buckettest.Fate {
		if !p.own || step == len(s) {
			return buckettest.Served
		}
		fate := s[step]
		step++
		if fate < buckettest.Fates {
			return fate
		}
		p.own = false
		defer func() { p.own = true }()
		switch fate {
		case helperWrites:
			p.append(1, "helper")
		case manyWrites:
			for range ancestors {
				p.append(1, "helper")
			}
		case newHolder:
			p.takeOver()
		case lateArrives:
			p.bucket.Deliver(1)
		}
		return buckettest.Served
	}
	old := keeping(p.guard, kind)
	for range 4 {
		p.own = true
		p.appendBy(old, 1, "old")
		p.own = false
	}
	p.bucket.Deliver(1 << 20)
	p.takeOver()
	p.bucket.Deliver(1 << 20)
	return p
}

// keeping appends through one handle, which remembers what it wrote last.
func keeping(g objguard.Guard, kind string) func(context.Context, guard.Fence, string) error {
	l, pointer := g.Log(resource), g.Pointer(resource)
	switch kind {
	case "log":
		return func(ctx context.Context, f guard.Fence, text string) error {
			_, err := l.Append(ctx, f, []byte(text))
			return err
		}
	case "update":
		return func(ctx context.Context, f guard.Fence, text string) error {
			return pointer.Update(ctx, f, func(old []byte) ([]byte, error) {
				return fmt.Appendf(old, "%q\n", text), nil
			})
		}
	}
	return guarded[kind](g, nil).Append
}

func (p *played) append(t guard.Token, who string) { p.appendBy(p.list.Append, t, who) }

func (p *played) appendBy(by func(context.Context, guard.Fence, string) error, t guard.Token, who string) {
	p.written++
	text := fmt.Sprintf("%s %d", who, p.written)
	p.told[text] = by(p.ctx, holder(t), text)
}

func (p *played) takeOver() {
	p.claimed = true
	p.errs = append(p.errs, p.list.Claim(p.ctx, holder(2)))
	p.append(2, "new")
	if p.clean != nil {
		p.errs = append(p.errs, p.clean())
	}
}

// judge asks whether what everybody was told is true.
func (p *played) judge() error {
	if err := errors.Join(p.errs...); err != nil {
		return fmt.Errorf("the new holder: %w", err)
	}
	rest, err := p.list.Read(p.ctx, resource)
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
	for text, err := range p.told {
		n := len(slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s != text }))
		ok := false
		switch {
		case err == nil:
			ok = n == 1
		case errors.Is(err, guard.ErrStale):
			ok = n == 0 && p.claimed && !strings.HasPrefix(text, "new")
		case errors.Is(err, guard.ErrUnknown):
			ok = n <= 1 && strings.HasPrefix(text, "old") && !errors.Is(err, objguard.ErrReset)
		default: // an upload failed
			ok = n == 0 && strings.HasPrefix(text, "old")
		}
		if !ok {
			return fmt.Errorf("%q is in the list %d times and was told %v: %q", text, n, err, all)
		}
	}
	return nil
}

// Every way in which up to three requests of an old holder are lost, left unanswered,
// late and repeated, with writes of others at each of them; then longer ones at random.
func TestEverySchedule(t *testing.T) {
	for kind, clean := range map[string]func(*played) error{
		"update": nil,
		"commit": func(p *played) error {
			_, err := p.guard.Pointer(resource).Sweep(p.ctx, holder(2))
			return err
		},
		"log": truncateAll,
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outcomes := map[string]int{}
				try := func(s schedule) {
					p := play(t.Context(), s, kind, clean)
					if err := p.judge(); err != nil {
						t.Fatalf("schedule %v: %v", s, err)
					}
					for _, err := range p.told {
						outcomes[outcome(err)]++
					}
				}
				everySchedule(3, try)
				rnd := rand.New(rand.NewPCG(1, 2))
				for range 1000 {
					s := make(schedule, 12)
					for i := range s {
						s[i] = buckettest.Fate(rnd.IntN(int(happenings)))
					}
					try(s)
				}
				// A test that does not reach an outcome shows nothing of it.
				for _, o := range []string{"done", "stale", "unknown"} {
					if outcomes[o] == 0 {
						t.Errorf("no write was %s: %v", o, outcomes)
					}
				}
				t.Log(outcomes)
			})
		})
	}
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, guard.ErrStale):
		return "stale"
	case errors.Is(err, guard.ErrUnknown):
		return "unknown"
	}
	return "failed"
}

// truncateAll takes away all that is there, as a new holder may.
func truncateAll(p *played) error {
	l := p.guard.Log(resource)
	page, err := l.Read(p.ctx, 0)
	if err != nil || len(page.Records) == 0 {
		return err
	}
	for _, r := range page.Records {
		p.kept = append(p.kept, string(r.Data))
	}
	_, err = l.Truncate(p.ctx, holder(2), page.Next-1)
	return err
}
