package access

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// loaded is a gate with some identities, and a caller of each.
func loaded(t *testing.T, names ...string) (g *Gate, callers map[string]*Caller) {
	t.Helper()
	var entries []Entry
	for _, name := range names {
		entries = append(entries, entry(name, Limits{}))
	}
	g, callers = NewGate(policy(t, entries...)), map[string]*Caller{}
	for _, name := range names {
		c, err := g.Admit(with(name))
		if err != nil {
			t.Fatal(err)
		}
		callers[name] = c
	}
	return g, callers
}

// begin takes room in the background and returns the channel that tells of it.
func begin(ctx context.Context, l *sharedBudget, c *Caller, n int) <-chan func() {
	taken := make(chan func(), 1)
	go func() {
		if give, err := l.take(ctx, c, n); err == nil {
			taken <- give
		}
		close(taken)
	}()
	synctest.Wait()
	return taken
}

func waits(t *testing.T, what string, taken <-chan func()) {
	t.Helper()
	synctest.Wait()
	select {
	case <-taken:
		t.Fatalf("%s has room", what)
	default:
	}
}

func has(t *testing.T, what string, taken <-chan func()) (give func()) {
	t.Helper()
	synctest.Wait()
	select {
	case give = <-taken:
		return give
	default:
		t.Fatalf("%s waits", what)
		return nil
	}
}

// An identity that has taken all it may have waits, and nobody else does.
func TestFullIdentityBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := loaded(t, "a", "b")
		l := newSharedBudget(2, 10)
		first := has(t, "the first", begin(t.Context(), l, c["a"], 1))
		has(t, "the second", begin(t.Context(), l, c["a"], 1))
		third, fourth := begin(t.Context(), l, c["a"], 1), begin(t.Context(), l, c["a"], 1)
		waits(t, "the third", third)
		giveB := has(t, "another identity", begin(t.Context(), l, c["b"], 2))
		first()
		first() // twice is once
		give := has(t, "the third, when the first has gone", third)
		waits(t, "the fourth", fourth)
		giveB()
		waits(t, "the fourth, when somebody else has gone", fourth)
		give()
		has(t, "the fourth", fourth)
	})
}

// Where all have no more room, identities are served in turn, however many of one
// wait; one that needs much is not passed over for ever.
func TestReservationsAreFairAcrossIdentities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := loaded(t, "a", "b", "c")
		l := newSharedBudget(3, 3)
		held := has(t, "the first", begin(t.Context(), l, c["c"], 3))
		var flood []<-chan func()
		for range 5 {
			flood = append(flood, begin(t.Context(), l, c["a"], 1))
		}
		large := begin(t.Context(), l, c["b"], 3)
		held()
		give := has(t, "the first of a flood", flood[0])
		waits(t, "its second", flood[1])
		waits(t, "the large one behind it", large)
		give()
		give = has(t, "the large one", large)
		give()
		has(t, "its second", flood[1])
	})
}

// Who gives up leaves the line, and gives no room that somebody else has.
func TestCancelledReservationLeavesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := loaded(t, "a", "b")
		l := newSharedBudget(1, 1)
		give := has(t, "the first", begin(t.Context(), l, c["a"], 1))
		ctx, cancel := context.WithCancel(t.Context())
		second, third := begin(ctx, l, c["a"], 1), begin(t.Context(), l, c["b"], 1)
		cancel()
		synctest.Wait()
		if _, taken := <-second; taken {
			t.Error("room was given to who had gone")
		}
		give()
		has(t, "who stood behind", third)()
		if len(l.of) != 0 || len(l.ring) != 0 || l.used != 0 {
			t.Errorf("left behind: %+v", l)
		}
	})
}

// What is larger than all that an identity may have is refused, not waited for.
func TestOversizedReservationIsRefused(t *testing.T) {
	g, c := loaded(t, "a")
	if _, err := g.Bytes(t.Context(), c["a"], BytesMax+1); !errors.Is(err, ErrTooMany) {
		t.Errorf("more than there is: %v", err)
	}
	g.Set(policy(t, entry("b", Limits{})))
	if _, err := g.Bytes(t.Context(), c["a"], 1); !errors.Is(err, ErrRevoked) {
		t.Errorf("somebody who is gone: %v", err)
	}
	open := NewGate(nil)
	anybody, err := open.Admit(Proof{})
	if err != nil {
		t.Fatal(err)
	}
	give, err := open.Bytes(t.Context(), anybody, AllBytesMax)
	if err != nil {
		t.Errorf("who has no name is everybody: %v", err)
	}
	give()
}
