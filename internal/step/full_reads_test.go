package step

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// Answers about names on a full store are those of a server that has read only the
// durable log, whatever was decided beyond it. Clients come and go, acquire, release
// and are broken, in random order.
func TestReadsOnFullStoreShowDurableState(t *testing.T) {
	pages, refused, observed := 0, 0, 0
	for seed := range uint64(300) {
		w := &fullStore{
			t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), stepper: stepper{t: t, wall: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
			durable: locktable.New(bounds.DefaultLimits), batches: map[uint64][]byte{}, ever: map[string][]guard.Token{}, held: map[guard.Token]string{},
		}
		w.play()
		pages, refused, observed = pages+w.pages, refused+w.refused, observed+w.observed
	}
	t.Logf("%d pages, %d refused, %d observations", pages, refused, observed)
	if pages < 1000 || refused < 1000 || observed < 100 {
		t.Errorf("%d pages, %d refused and %d observations on full stores test little", pages, refused, observed)
	}
}

// fullStore is a core whose store turns full, and the log as far as it is durable.
type fullStore struct {
	stepper
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	durable *locktable.Table
	applied uint64
	batches map[uint64][]byte
	// ever are the tokens that each name was held under in the durable log, 0 when it
	// was free; held the names that are granted.
	ever                     map[string][]guard.Token
	held                     map[guard.Token]string
	pages, refused, observed int
}

// listing is who asked for one, with what it asks.
type listing struct{ locktable.List }

func (w *fullStore) name() string {
	return fmt.Sprintf("%c/%d", 'a'+rune(w.rand.IntN(3)), w.rand.IntN(4))
}

func (w *fullStore) play() {
	w.c = newCore(locktable.New(bounds.DefaultLimits), 1, store.Nonce{1})
	w.c.table.Found("test-0123456789abcdef", []byte("secret"), &w.c.decided)
	w.landed(1, w.c.opening(w.wall, 0))
	w.c.Begun(w.now)
	var others []locktable.Command
	for i := range 70 {
		others = append(others, locktable.Acquire{
			Ref: "many", Names: []string{fmt.Sprintf("c/%d", i)}, Session: stepID("many"), Try: true, Lease: stepID(fmt.Sprint("many", i)),
		})
	}
	w.turn([]locktable.Command{
		locktable.Attach{Ref: "eye", New: stepID("eye"), Generation: 1, TTL: time.Hour},
		locktable.OpenSession{Ref: "many", New: stepID("many"), TTL: time.Hour},
	}, others)
	for range 60 {
		w.turn(w.urgent(), w.acquires())
		switch {
		case w.c.unwritten == nil && w.rand.IntN(6) == 0:
			w.c.Full()
		case w.c.unwritten == nil:
			for range w.rand.IntN(4) {
				w.land()
			}
		case w.c.unwritten != nil && w.rand.IntN(12) == 0:
			w.land()
		}
		w.carryOut()
	}
}

func (w *fullStore) turn(urgent, acquires []locktable.Command) {
	w.now, w.wall = w.now.Add(10*time.Millisecond), w.wall.Add(10*time.Millisecond)
	w.c.Step(w.now, w.wall, urgent, acquires, true)
	w.carryOut()
	w.c.Answered(true)
	w.carryOut()
}

func (w *fullStore) acquires() (all []locktable.Command) {
	for range w.rand.IntN(3) {
		name, n := w.name(), w.rand.Uint64()
		all = append(all, locktable.Acquire{
			Ref: name, Names: []string{name, w.name()}, Try: true, Lease: stepID(fmt.Sprint("lease", n)), Own: stepID(fmt.Sprint("own", n)),
			TTL: time.Hour, LockDelay: time.Duration(w.rand.IntN(2)) * 100 * time.Millisecond,
		})
	}
	return all
}

func (w *fullStore) urgent() (all []locktable.Command) {
	for range 1 + w.rand.IntN(4) {
		switch w.rand.IntN(9) {
		case 0, 1:
			all = append(all, w.end()...)
		case 2:
			all = append(all, locktable.Observe{Ref: "eye", Session: stepID("eye"), Generation: 1, Name: w.name()})
		case 3:
			all = append(all, locktable.Unobserve{Session: stepID("eye"), Generation: 1, Name: w.name()})
		case 4:
			if w.rand.IntN(20) == 0 {
				all = append(all, locktable.Close{Ref: "many", Session: stepID("many")})
			}
		default:
			l := &listing{}
			switch w.rand.IntN(4) {
			case 0:
				l.Name = w.name()
			case 1:
				l.Prefix = w.name()[:2]
				if w.rand.IntN(2) == 0 {
					l.After = l.Prefix + "2"
				}
			case 2:
				l.Within = []string{"a/", "b/1"}
			}
			l.Ref = l
			all = append(all, l.List)
		}
	}
	return all
}

// end breaks one of the leases at once, which ends its session's only one, or asks
// for it.
func (w *fullStore) end() []locktable.Command {
	tokens := slices.Sorted(maps.Keys(w.held))
	if len(tokens) == 0 {
		return nil
	}
	token := tokens[w.rand.IntN(len(tokens))]
	return []locktable.Command{locktable.Break{Ref: "break", Name: w.held[token], Token: token, Now: w.rand.IntN(3) > 0}}
}

// land lands one of the batches under way, if there is one.
func (w *fullStore) land() {
	var under []uint64
	for n, f := range w.c.inFlight {
		if !f.landed {
			under = append(under, n)
		}
	}
	if len(under) == 0 {
		return
	}
	slices.Sort(under)
	w.c.Landed(under[w.rand.IntN(len(under))])
	for w.applied < w.c.durable {
		w.landed(w.applied+1, w.batches[w.applied+1])
	}
	w.carryOut()
}

// landed takes a batch into the durable log.
func (w *fullStore) landed(n uint64, raw []byte) {
	err := store.EachBatchEvent(raw, func(e *recordpb.Event) error { return w.durable.Apply(e) })
	if err != nil {
		w.t.Fatalf("seed %d: batch %d: %v", w.seed, n, err)
	}
	w.applied = n
	for _, l := range []byte("abc") {
		for i := range 4 {
			name := fmt.Sprintf("%c/%d", l, i)
			w.ever[name] = append(w.ever[name], w.first(name))
		}
	}
}

func (w *fullStore) page(l locktable.List) locktable.Page {
	var d locktable.Decided
	l.Ref = l.Name
	w.durable.Decide(locktable.Now{Wall: w.wall}, l, &d)
	return d.Replies[0].Answer.(locktable.Page)
}

func (w *fullStore) first(name string) guard.Token {
	if p := w.page(locktable.List{Name: name}); len(p.Locks) > 0 && len(p.Locks[0].Holders) > 0 {
		return p.Locks[0].Holders[0].Token
	}
	return 0
}

// carryOut takes what the core wants done, and looks at what leaves.
func (w *fullStore) carryOut() {
	a := w.c.Take()
	for _, b := range a.Appends {
		w.batches[b.Number] = b.Raw
	}
	for _, g := range a.Groups {
		for _, r := range g.Replies {
			w.answered(g, r)
		}
	}
}

func (w *fullStore) answered(g Group, r locktable.Reply) {
	switch a := r.Answer.(type) {
	case locktable.Granted:
		w.held[a.Token] = a.Grants[0].Name
	case locktable.Observed:
		if g.Early {
			w.observed++
			if log := w.first(a.Name); log != a.Token {
				w.t.Fatalf("seed %d: observers of %s are told of %d, and the durable log has %d", w.seed, a.Name, a.Token, log)
			}
		}
		if !slices.Contains(w.ever[a.Name], a.Token) && a.Name[0] != 'c' {
			w.t.Fatalf("seed %d: observers of %s are told of %d; it was held under %v", w.seed, a.Name, a.Token, w.ever[a.Name])
		}
	case locktable.Refused:
		if _, listed := r.To.(*listing); listed && g.Early {
			w.refused++
		}
	case locktable.Page:
		if !g.Early {
			return
		}
		w.pages++
		l := r.To.(*listing).List
		if is, log := shown(a), shown(w.page(l)); is != log {
			w.t.Fatalf("seed %d: %+v shows %s, and the durable log has %s", w.seed, l, is, log)
		}
	}
}

// shown is what a page shows of who holds what.
func shown(p locktable.Page) (text string) {
	for _, l := range p.Locks {
		text += " " + l.Name
		for _, h := range l.Holders {
			text += fmt.Sprintf(":%d/%v", h.Token, h.Breaking)
		}
	}
	return text
}
