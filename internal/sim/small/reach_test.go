package small

import "testing"

// goals are what must happen in a world for its search to mean something.
var goals = []struct {
	world, what string
	is          func(w *World) bool
}{
	{"renewals", "a session ends in the second tenure", func(w *World) bool {
		return w.judge.epoch == 2 && !w.judge.lives[w.clients[0].session]
	}},
	{"renewals", "a session is renewed in the second tenure", func(w *World) bool {
		c := w.clients[0]
		return c.up && c.stream.epoch == 2 && c.trusts() && w.now > 0
	}},
	{"expiry", "a holder gives up what its server still has", func(w *World) bool {
		return w.clients[0].lost && w.judge.lives[w.clients[0].session]
	}},
	{"full", "a renewal goes before a record that is stuck", func(w *World) bool { return w.spared }},
	{"ttls", "a lower TTL is logged", func(w *World) bool {
		return w.left.TTLs == 0 && w.judge.ttls[w.clients[0].session] == ttl
	}},
	{"ttls", "a higher TTL is given by the second tenure", func(w *World) bool {
		c := w.clients[0]
		return w.judge.epoch == 2 && w.judge.ttls[c.session] == 2*ttl && c.trusts() && w.now > 6
	}},
	{"tenures", "a third tenure serves", func(w *World) bool {
		return w.judge.epoch == 3 && (w.servers[0].phase == serving && w.servers[0].epoch == 3)
	}},
	{"tenures", "what was under way reaches the store twice", func(w *World) bool {
		return len(w.straying) > 0 && w.straying[0].landed == strayMax
	}},
	{"tenures", "a batch lies behind a hole", func(w *World) bool { return len(w.judge.behind) > 0 }},
	{"standby", "a standby takes over that followed while batches behind a hole were cut", func(w *World) bool {
		return w.resumed && w.cut && w.servers[1].phase == serving
	}},
	{"standby", "a standby takes over a log that it has read to its end", func(w *World) bool {
		b := w.servers[1]
		return w.resumed && w.bounds.Follows-w.left.Follows == 2 && b.phase == serving
	}},
	{"standby-late", "what was under way reaches the store after a standby has read on", func(w *World) bool {
		f := w.servers[1].follower
		return f != nil && f.Position().Number == w.judge.head && len(w.straying) > 0 && w.straying[0].landed > 0
	}},
	{"resource", "the guard refuses a write", func(w *World) bool {
		sent := w.bounds.Writes - w.left.Writes
		return sent > len(w.resource.writes)+len(w.resource.effects)
	}},
	{"resource", "both clients hold the name, one after the other", func(w *World) bool {
		return w.clients[1].token != 0 && w.clients[0].token == 0
	}},
}

func TestGoalsAreReached(t *testing.T) {
	if testing.Short() {
		t.Skip("the goals lie some thousand states away")
	}
	for _, b := range Worlds {
		left := map[string]func(*World) bool{}
		for _, g := range goals {
			if g.world == b.Name {
				left[g.what] = g.is
			}
		}
		p := newPlans(false)
		search(b, 6*quick, func(w *World) (Key, bool) {
			for what, is := range left {
				if is(w) {
					delete(left, what)
				}
			}
			return w.key(p), len(left) == 0
		})
		for what := range left {
			t.Errorf("%s: it never happens that %s", b.Name, what)
		}
	}
}
