package sim

import (
	"math"
	"slices"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Act is one call to the lock interface, for one name, and its result as far as the
// caller knows it. Stamps are positions in the single order of all calls and returns.
type Act struct {
	Verb    Verb
	Outcome Outcome
	// Client is a number that no other client has, nor the same one after a crash.
	Client int
	Name   string
	Mode   locktable.Mode
	// Slots of the name, 0: it is a lock.
	Slots uint32
	// Token granted, released, checked, or told by a refusal (0: nobody's).
	Token, Fence guard.Token
	Slot         uint32
	// Call and Return; Forever: nobody knows whether or when.
	Call, Return int64
}

// Forever is the return of what may take effect until the end of time.
const Forever = math.MaxInt64

// Verb is what was asked.
type Verb uint8

// The verbs.
const (
	VerbAcquire Verb = iota
	VerbTry
	VerbRelease
	VerbCheck
	// VerbEnd: from now on a lease may end without its holder: its deadline has
	// passed, its holder is dead or was told so, or an operator breaks it.
	VerbEnd
	// VerbLost: a client gives up a session; what it waits for it asks for anew.
	VerbLost
)

// Outcome is what the caller was told.
type Outcome uint8

// The outcomes.
const (
	// Unknown: nothing, or an error that says nothing.
	Unknown Outcome = iota
	Done
	// Held: refused, since somebody holds the name.
	Held
	// Gone: the lease is not held any more.
	Gone
)

// recorder notes what callers ask and are told. It knows nothing of what happens
// inside, except when a holder stops trusting its lease.
type recorder struct {
	world *World
	stamp int64
	acts  []*Act
	// trusted are the leases that their holders still believe in.
	trusted []*lease
	clients int
	numbers map[*process]number
}

// number of a process's present life.
type number struct {
	life   uint32
	number int
}

// Record plays a plan as Run does, and also returns the calls to the lock interface.
// The world is the same as in Run, except that it goes on after a failure.
func Record(p Plan) (Result, []Act) {
	w := newWorld(p)
	w.recorder = &recorder{world: w, numbers: map[*process]number{}}
	w.play()
	var all []Act
	for _, a := range w.recorder.acts {
		all = append(all, *a)
	}
	return w.result(), all
}

// next is the stamp of what happens now, after the deadlines that have passed.
func (x *recorder) next() int64 {
	x.trusted = slices.DeleteFunc(x.trusted, func(l *lease) bool {
		if l.holder.trusted(l) > 0 {
			return false
		}
		x.ends(x.client(l.holder.who()), l.mode, l.token, l.grants)
		return true
	})
	x.stamp++
	return x.stamp
}

// ends notes that a lease may end from now on.
func (x *recorder) ends(client int, mode locktable.Mode, token guard.Token, grants []locktable.Grant) {
	x.stamp++
	for _, g := range grants {
		x.acts = append(x.acts, &Act{
			Verb: VerbEnd, Client: client, Name: g.Name, Mode: mode, Token: token, Call: x.stamp, Return: x.stamp,
		})
	}
}

func (x *recorder) client(p *process) int {
	n, ok := x.numbers[p]
	if !ok || n.life != p.life {
		x.clients++
		n = number{p.life, x.clients}
		x.numbers[p] = n
	}
	return n.number
}

// asks notes that somebody asks for names. The acts are unknown until told. A
// nil recorder records nothing.
func (x *recorder) asks(p *process, want *acquireSpec, try bool) []*Act {
	if x == nil {
		return nil
	}
	verb := VerbAcquire
	if try {
		verb = VerbTry
	}
	var acts []*Act
	call, client := x.next(), x.client(p)
	for _, name := range want.names {
		acts = append(acts, &Act{
			Verb: verb, Client: client, Name: name, Mode: want.mode, Slots: want.slots, Call: call, Return: Forever,
		})
	}
	x.acts = append(x.acts, acts...)
	return acts
}

// asksAbout notes a release or a check.
func (x *recorder) asksAbout(p *process, l *lease, verb Verb) []*Act {
	if x == nil {
		return nil
	}
	var acts []*Act
	call, client := x.next(), x.client(p)
	for _, g := range l.grants {
		acts = append(acts, &Act{
			Verb: verb, Client: client, Name: g.Name, Mode: l.mode, Token: l.token, Call: call, Return: Forever,
		})
	}
	x.acts = append(x.acts, acts...)
	return acts
}

// granted notes an acquire's answer.
func (x *recorder) granted(acts []*Act, l *lease) {
	if x == nil || len(acts) == 0 {
		return
	}
	back := x.next()
	for _, a := range acts {
		for _, g := range l.grants {
			if g.Name == a.Name {
				a.Outcome, a.Token, a.Fence, a.Slot, a.Return = Done, l.token, g.Fence, g.Slot, back
			}
		}
	}
	if l.holder.trusted(l) == 0 {
		// Told too late: its deadline had passed meanwhile.
		for _, a := range acts {
			x.acts = append(x.acts, &Act{
				Verb: VerbEnd, Client: a.Client, Name: a.Name, Mode: a.Mode, Token: a.Token, Call: a.Call, Return: a.Call,
			})
		}
		return
	}
	x.trusted = append(x.trusted, l)
}

// refused notes an acquire's refusal as far as it tells who held the name.
func (x *recorder) refused(acts []*Act, r locktable.Refused) {
	if x == nil || len(acts) != 1 || r.Reason != locktable.Held || r.Holder == nil || acts[0].Verb != VerbTry {
		return
	}
	acts[0].Outcome, acts[0].Token, acts[0].Return = Held, r.Holder.Token, x.next()
}

// returned notes the answer to a release or a check.
func (x *recorder) returned(acts []*Act, l *lease, o Outcome) {
	if x == nil || len(acts) == 0 {
		return
	}
	back := x.next()
	for _, a := range acts {
		a.Outcome, a.Return = o, back
	}
	if acts[0].Verb == VerbRelease && o == Done {
		x.trusted = slices.DeleteFunc(x.trusted, func(y *lease) bool { return y == l })
	}
}

// loses notes that a client gives up its session.
func (x *recorder) loses(p *process) {
	if x != nil {
		at := x.next()
		x.acts = append(x.acts, &Act{Verb: VerbLost, Client: x.client(p), Call: at, Return: at})
	}
}

// breaks notes that an operator breaks a lease by force.
func (x *recorder) breaks(l *entry) {
	if x == nil {
		return
	}
	x.next()
	for _, g := range l.grants {
		x.ends(0, l.mode, l.token, []locktable.Grant{{Name: g.Name}})
	}
}
