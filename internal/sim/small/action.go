package small

import (
	"fmt"
	"time"
)

// kind is a kind of action.
type kind uint8

const (
	ticks kind = iota
	renews
	asksTTL
	greets
	acquires
	releases
	arrives
	hears
	confirms
	confirmsSlowly
	appends
	breaks
	claims
	follows
	replays
	opens
	strays
	claimsResource
	writes
	reaches
)

// ttls are what a client may ask for.
var ttls = [...]time.Duration{ttl, 2 * ttl}

// action is one thing that can happen: to whom or which, and how.
type action struct {
	kind    kind
	of, how int8
}

// enabled lists what can happen next.
func (w *World) enabled() []action {
	var all []action
	add := func(k kind, of, how int) { all = append(all, action{k, int8(of), int8(how)}) }
	for _, s := range w.servers {
		w.serverActions(s, add)
	}
	for i, x := range w.streams {
		if len(x.up) > 0 {
			add(arrives, i, 0)
		}
	}
	for i, x := range w.straying {
		if x.landed < strayMax {
			add(strays, i, 0)
		}
	}
	for _, c := range w.clients {
		w.clientActions(c, add)
	}
	for i := range w.resource.writes {
		add(reaches, i, 0)
	}
	if w.left.Ticks > 0 {
		for going := range 4 {
			if w.canGoOn(going) {
				add(ticks, 0, going)
			}
		}
	}
	return all
}

// canGoOn: only servers at work make a difference.
func (w *World) canGoOn(going int) bool {
	for i, s := range w.servers {
		if going>>i&1 == 1 && s.phase != serving {
			return false
		}
	}
	return true
}

func (w *World) serverActions(s *server, add func(k kind, of, how int)) {
	switch s.phase {
	case claimed:
		add(replays, s.id, 0)
	case replayed:
		w.fates(opens, s.id, 0, add)
	case serving:
		for i := range s.flying {
			w.fates(appends, s.id, i, add)
		}
		if s.asked {
			add(confirms, s.id, 0)
			if !s.read && w.left.SlowConfirms > 0 {
				add(confirmsSlowly, s.id, 0)
			}
		}
		if w.left.Breaks > 0 && w.judge.holder != 0 {
			add(breaks, s.id, 0)
			add(breaks, s.id, 1)
		}
	}
	if w.left.Takes > 0 && (s.phase == idle || s.epoch != w.judge.epoch || w.bounds.Restarts) {
		add(claims, s.id, 0)
	}
	if w.left.Follows > 0 && s.phase == idle {
		add(follows, s.id, 0)
	}
}

// fates: how packs which batch and what becomes of it.
func (w *World) fates(k kind, of, which int, add func(k kind, of, how int)) {
	add(k, of, which*len(fates)+int(lands))
	if w.left.Unheard > 0 {
		add(k, of, which*len(fates)+int(unheard))
	}
	if w.left.Late > 0 {
		add(k, of, which*len(fates)+int(late))
	}
	if k == appends && w.left.Full > 0 {
		add(k, of, which*len(fates)+int(refused))
	}
}

func (w *World) clientActions(c *client, add func(k kind, of, how int)) {
	if c.stream != nil && len(c.stream.down) > 0 {
		add(hears, c.id, 0)
	}
	if c.lost {
		return
	}
	if w.bounds.Alone && c.id == 1 {
		return
	}
	if c.up && w.left.Renewals > 0 {
		add(renews, c.id, 0)
	}
	for how, wish := range ttls {
		if c.up && w.left.TTLs > 0 && wish != c.ttl {
			add(asksTTL, c.id, how)
		}
	}
	for _, s := range w.servers {
		if w.left.Greetings > 0 && s.phase == serving && s.epoch > c.stream.epoch {
			add(greets, c.id, s.id)
		}
	}
	if c.up && w.left.Acquires > 0 && c.request == 0 && c.token == 0 {
		add(acquires, c.id, 0)
	}
	if c.token == 0 || !c.trusts() {
		return
	}
	if c.up && w.left.Releases > 0 {
		add(releases, c.id, 0)
	}
	switch {
	case w.bounds.Writes == 0:
	case !c.claimed:
		add(claimsResource, c.id, 0)
	case !c.writing && w.left.Writes > 0:
		add(writes, c.id, 0)
	}
}

// do has an action happen. What panics is a violation too.
func (w *World) do(a action) {
	defer func() {
		if p := recover(); p != nil {
			w.fail("panic", "%v", p)
		}
	}()
	w.steps++
	of, how := int(a.of), int(a.how)
	switch a.kind {
	case ticks:
		w.left.Ticks--
		w.tick(how)
	case renews:
		w.left.Renewals--
		w.clients[of].renew(0)
	case asksTTL:
		w.left.TTLs--
		w.clients[of].askTTL(ttls[how])
	case greets:
		w.left.Greetings--
		w.clients[of].greet(w.servers[how])
	case acquires:
		w.left.Acquires--
		w.clients[of].acquire()
	case releases:
		w.left.Releases--
		w.clients[of].release()
	case arrives:
		w.receive(of)
	case hears:
		w.clients[of].hear()
	case confirms:
		w.servers[of].confirm(false)
	case confirmsSlowly:
		w.left.SlowConfirms--
		w.servers[of].confirm(true)
	case appends:
		f := w.spend(how)
		w.servers[of].land(how/len(fates), f)
	case opens:
		f := w.spend(how)
		w.servers[of].open(f)
	case strays:
		w.straying[of].landed++
		_, _ = w.land(w.straying[of].txn)
	case breaks:
		w.left.Breaks--
		w.servers[of].breakLease(how == 1)
	case claims:
		w.left.Takes--
		if w.servers[of].claim(); w.bounds.Late == 0 && w.failure == nil {
			// Nothing can come between.
			w.servers[of].replay()
		}
	case follows:
		w.left.Follows--
		w.servers[of].follow()
	case replays:
		w.servers[of].replay()
	case claimsResource:
		w.clients[of].claim()
	case writes:
		w.left.Writes--
		w.clients[of].write()
	case reaches:
		w.arrive(of)
	}
}

// spend takes a fate that is not the plain one from what may still happen.
func (w *World) spend(how int) fate {
	f := fate(how % len(fates))
	switch f {
	case unheard:
		w.left.Unheard--
	case late:
		w.left.Late--
	case refused:
		w.left.Full--
	}
	return f
}

// describe says what an action is, in the state in which it happens.
func (w *World) describe(a action) string {
	of, how := int(a.of), int(a.how)
	server := func() string { return fmt.Sprintf("%s (epoch %d)", w.servers[of].name(), w.servers[of].epoch) }
	client := func() string { return w.clients[of].name() }
	at := func(what string, args ...any) string {
		return fmt.Sprintf("at %v: ", w.reading().Boot) + fmt.Sprintf(what, args...)
	}
	switch a.kind {
	case ticks:
		return at("%v go by; %s", time.Duration(w.bounds.Quarters)*quarter, [...]string{"no server goes on", "server A goes on", "server B goes on", "both servers go on"}[how])
	case renews:
		return at("%s sends a renewal", client())
	case asksTTL:
		return at("%s sends a renewal that asks for a TTL of %v", client(), ttls[how])
	case greets:
		return at("%s greets %s", client(), w.servers[how].name())
	case acquires:
		return at("%s asks for the name", client())
	case releases:
		return at("%s releases token %d", client(), w.clients[of].token)
	case arrives:
		x := w.streams[of]
		return at("a message of %s arrives at %s (epoch %d): %s", w.clients[x.client].name(), w.servers[x.server].name(), x.epoch, x.up[0])
	case hears:
		return at("%s hears %T", client(), w.clients[of].stream.down[0].is)
	case confirms:
		return at("%s hears that its tenure is in force, if it is", server())
	case confirmsSlowly:
		return at("%s's Confirm reads the tenure, and the answer is under way", server())
	case appends:
		return at("%s appends batch %d, which %s", server(), w.servers[of].flying[how/len(fates)].number, fates[how%len(fates)])
	case opens:
		return at("%s appends the opening batch %d, which %s", server(), w.servers[of].opening.number, fates[how%len(fates)])
	case strays:
		x := w.straying[of]
		return at("the %s of batch %d of epoch %d, which was under way, reaches the store", x.what, x.number, x.epoch)
	case breaks:
		return at("an operator breaks token %d at %s, %s", w.judge.holder, server(), [...]string{"asking its holder", "by force"}[how])
	case claims:
		return at("%s claims epoch %d", w.servers[of].name(), w.judge.epoch+1)
	case follows:
		return at("%s, which stands by, reads on", w.servers[of].name())
	case replays:
		if f := w.servers[of].follower; f != nil && f.Position().Number > 0 {
			return at("%s reads what follows batch %d, which it has followed the log up to", server(), f.Position().Number)
		}
		return at("%s reads the log", server())
	case claimsResource:
		return at("%s claims the resource with token %d and reads it", client(), w.clients[of].token)
	case writes:
		return at("%s, which trusts token %d, sends a write", client(), w.clients[of].token)
	default:
		x := w.resource.writes[of]
		return at("a write with token %d reaches the resource", x.token)
	}
}
