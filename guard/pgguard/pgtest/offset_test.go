//go:build unix

package pgtest

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/guard"
)

// consume appends text and moves the offset of partition p, as a consumer of a
// log does.
func (d *database) consume(t *testing.T, f guard.Fence, prev, next uint64, text string) error {
	return d.guard.InTx(t.Context(), f, func(tx pgx.Tx) error {
		if err := d.guard.Offset(t.Context(), tx, f, "p", prev, next); err != nil {
			return err
		}
		return add(t.Context(), tx, f.Resource, text)
	})
}

func wantVerdict(t *testing.T, err error, v guard.Verdict) {
	t.Helper()
	e, ok := errors.AsType[*guard.StaleError](err)
	if !ok || e.Verdict != v {
		t.Errorf("got %v, want %v", err, v)
	}
}

func TestOffset(t *testing.T) {
	d := fresh(t)
	old, young := fence("x", 7), fence("x", 8)
	for _, s := range []struct {
		f          guard.Fence
		prev, next uint64
		text       string
		want       guard.Verdict
	}{
		{old, 5, 6, "", guard.Gap},
		{old, 0, 3, "a", guard.Pass},
		{old, 0, 3, "", guard.Duplicate},
		{old, 4, 5, "", guard.Gap},
		{old, 3, 4, "b", guard.Pass},
		{young, 3, 4, "", guard.Duplicate},
		{young, 4, 9, "c", guard.Pass},
		{old, 9, 10, "", guard.Stale},
		{young, 9, 1<<63 - 1, "d", guard.Pass},
	} {
		err := d.consume(t, s.f, s.prev, s.next, s.text)
		if s.want == guard.Pass {
			if err != nil {
				t.Errorf("%d to %d with token %d: %v", s.prev, s.next, s.f.Token, err)
			}
			continue
		}
		wantVerdict(t, err, s.want)
	}
	d.wantList(t, "x", "a", "b", "c", "d")
	if at, err := d.guard.OffsetOf(t.Context(), "x", "p"); err != nil || at != 1<<63-1 {
		t.Errorf("the offset is %d, %v", at, err)
	}
	if at, err := d.guard.OffsetOf(t.Context(), "x", "q"); err != nil || at != 0 {
		t.Errorf("the offset of another key is %d, %v", at, err)
	}
}

func TestOffsetOutOfBounds(t *testing.T) {
	d := fresh(t)
	f := fence("x", 7)
	for _, s := range [][2]uint64{{0, 0}, {3, 3}, {4, 3}, {0, 1 << 63}, {1 << 63, 1<<63 + 1}} {
		wantOnly(t, d.consume(t, f, s[0], s[1], "x"), guard.ErrMalformed)
	}
	err := d.guard.InTx(t.Context(), f, func(tx pgx.Tx) error {
		return d.guard.Offset(t.Context(), tx, f, "", 0, 1)
	})
	wantOnly(t, err, guard.ErrMissing)
	d.wantList(t, "x")
	if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s.Seen != 0 {
		t.Errorf("the mark is %+v, %v", s, err)
	}
}

// TestOffsetEnters: a transaction that begins with an offset is as guarded as
// one that enters, and a refusal ends it.
func TestOffsetEnters(t *testing.T) {
	d := fresh(t)
	if err := d.consume(t, fence("x", 8), 0, 1, "a"); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[error]struct {
		f          guard.Fence
		prev, next uint64
	}{
		guard.ErrStale:     {fence("x", 7), 1, 2},
		guard.ErrOutOfTurn: {fence("x", 8), 0, 1},
	} {
		tx, err := d.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantOnly(t, d.guard.Offset(t.Context(), tx, s.f, "p", s.prev, s.next), want)
		if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("commit after a refused offset: %v", err)
		}
	}
}

// TestOffsetMakesRepetitionSafe: the commit's answer is lost, the holder repeats
// the same step, and it takes effect once either way.
func TestOffsetMakesRepetitionSafe(t *testing.T) {
	for _, landed := range []bool{true, false} {
		d := fresh(t)
		f := fence("x", 7)
		d.wire.loseAnswer(landed)
		wantOnly(t, d.consume(t, f, 0, 1, "a"), guard.ErrUnknown)
		again := d.consume(t, f, 0, 1, "a")
		if landed {
			wantVerdict(t, again, guard.Duplicate)
			wantOnly(t, again, guard.ErrOutOfTurn)
		} else if again != nil {
			t.Error(again)
		}
		d.wantList(t, "x", "a")
	}
}

// TestOffsetAtOnce: two that move from the same place, at the first move and
// later: one does, the other is told where it stands.
func TestOffsetAtOnce(t *testing.T) {
	d, first, second := naive(t)
	const move = `select pawl.move_offset('x', '` + cell + `', 5, 'p', `
	for _, step := range []string{move + `0, 1)`, move + `1, 2)`} {
		first.must(begin, step)
		second.must(begin)
		end := second.blocked(step)
		first.must(commit)
		wantEnd(t, end, "FE008")
		second.must(`rollback`)
	}
	if at, err := d.guard.OffsetOf(t.Context(), "x", "p"); err != nil || at != 2 {
		t.Errorf("the offset is %d, %v", at, err)
	}
}
