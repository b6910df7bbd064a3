//go:build unix

package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
	"github.com/pawlproject/pawl/internal/testwait"
)

// contentWith opens the database on the primary for sessions that are content with
// a level of synchronous_commit.
func (p *pair) contentWith(t *testing.T, level string) *database {
	t.Helper()
	return open(t, p.first.dsn, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["synchronous_commit"] = level
	})
}

func (d *database) mustAppend(t *testing.T, f guard.Fence, text string) {
	t.Helper()
	if err := d.append(t.Context(), f, text); err != nil {
		t.Fatal(err)
	}
}

func (d *database) wantMark(t *testing.T, resource string, seen guard.Token) {
	t.Helper()
	if s, err := d.guard.Seen(t.Context(), resource); err != nil || s.Seen != seen {
		t.Errorf("the mark of %q is %+v, %v; want %d", resource, s, err, seen)
	}
}

// A claim is answered when the standby has it, so its caller may go on at the new
// primary, and the old holder is refused there.
func TestSynchronousFailoverKeepsTheMark(t *testing.T) {
	p := streaming(t, true)
	waits := []string{"on", "remote_apply"}
	for _, level := range waits {
		d := p.contentWith(t, level)
		d.mustClaim(t, fence(level, 5))
		d.mustAppend(t, fence(level, 5), "old")
		p.cut(t)
		end := p.held(t, func() error { return d.guard.Claim(t.Context(), fence(level, 6)) })
		p.join(t)
		if err := <-end; err != nil {
			t.Fatal(err)
		}
		d.mustAppend(t, fence(level, 6), "young")
	}
	p.crash()
	d := p.promote(t)
	for _, level := range waits {
		wantOnly(t, d.append(t.Context(), fence(level, 5), "late"), guard.ErrStale)
		wantOnly(t, d.guard.Claim(t.Context(), fence(level, 5)), guard.ErrStale)
		d.mustAppend(t, fence(level, 6), "goes on")
		d.wantList(t, level, "old", "young", "goes on")
	}
	d.mustClaim(t, fence("on", 7))
}

// Also where the session is content with less, and where the mark is there already but
// its commit was never waited for to the end.
func TestClaimWaitsForTheStandby(t *testing.T) {
	p := streaming(t, true)
	claim := func(d *database, f guard.Fence) func() error {
		return func() error { return d.guard.Claim(t.Context(), f) }
	}
	t.Run("on the standby", func(t *testing.T) {
		// What it shows may be old, and it holds nobody up.
		p.first.mustClaim(t, fence("standby", 5))
		d := open(t, p.standby.DSN("postgres"))
		testwait.Until(t, bound, "the mark on the standby", func() bool {
			return d.count(t, `select count(*) from pawl.guard where resource = 'standby'`) == 1
		})
		for _, token := range []guard.Token{5, 6} {
			err := d.guard.Claim(t.Context(), fence("standby", token))
			wantCode(t, err, "25006")
			wantNone(t, err)
		}
	})
	for _, level := range []string{"off", "local", "remote_write"} {
		t.Run(level, func(t *testing.T) {
			d := p.contentWith(t, level)
			p.cut(t)
			end := p.held(t, claim(d, fence(level, 5)))
			p.join(t)
			if err := <-end; err != nil {
				t.Fatal(err)
			}
			if level == "remote_write" {
				return
			}
			// It is for the claim alone: the session's work is as safe as it wants.
			p.cut(t)
			d.mustAppend(t, fence(level, 5), "content")
			p.join(t)
		})
	}

	// 1. The new holder's claim waits for the standby, and its session is ended:
	//    unknown. The primary has committed it.
	// 2. It claims again. There is nothing to raise; were that answered at once, it
	//    would read and act, and
	// 3. the primary fails, and the standby has never heard of the mark.
	d := p.first
	d.mustClaim(t, fence("x", 5))
	p.cut(t)
	end := p.held(t, claim(d, fence("x", 6)))
	d.mustExec(t, `select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`)
	wantOnly(t, <-end, guard.ErrUnknown)
	d.wantMark(t, "x", 6)
	naive := d.session(t)
	naive.must(`select pawl.enter('x', '` + cell + `', 6)`) // as step 2 was once
	again := p.held(t, claim(d, fence("x", 6)))
	p.crash()
	if err := <-again; err == nil {
		t.Error("the claim was answered, and no standby has it")
	}
	next := p.promote(t)
	next.wantMark(t, "x", 5)
	next.mustClaim(t, fence("x", 6))
	wantOnly(t, next.append(t.Context(), fence("x", 5), "late"), guard.ErrStale)
}

// To on where it is less, and no longer than its transaction.
func TestClaimRaisesTheSettingForItself(t *testing.T) {
	d := fresh(t)
	s := d.session(t)
	setting := func() (is string) {
		if err := s.QueryRow(t.Context(), `show synchronous_commit`).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	for level, want := range map[string]string{
		"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply",
	} {
		s.must(`set synchronous_commit = `+level, begin, `select pawl.claim('x', '`+cell+`', 5)`)
		if is := setting(); is != want {
			t.Errorf("with %s a claim commits with %s, want %s", level, is, want)
		}
		s.must(commit)
		if is := setting(); is != level {
			t.Errorf("after the claim it is %s, want %s", is, level)
		}
	}
}

// Cancelling a commit that waits for the standby (pg_cancel_backend, Ctrl-C in psql)
// makes it succeed, with a warning. It is then on the primary alone. A claim is never
// answered by that; the work is where the pool's connections tell of it, and counts as
// committed where they do not, as by SQL: a hole, and PostgreSQL's.
func TestCancelledStandbyWaitIsUnknown(t *testing.T) {
	p := streaming(t, true)
	d := p.first
	notices := 0
	telling := open(t, d.dsn, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { notices++ }
		pgguard.ReportCancelledWaits(c.ConnConfig)
	})
	d.mustClaim(t, fence("x", 5))
	cancelled := func(do func() error) error {
		t.Helper()
		end := p.held(t, do)
		d.mustExec(t, `select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`)
		return <-end
	}
	append5 := func(d *database) func() error {
		return func() error { return d.append(t.Context(), fence("x", 5), "a") }
	}
	p.cut(t)
	wantOnly(t, cancelled(append5(telling)), guard.ErrUnknown)
	if notices != 1 {
		t.Errorf("its own handler was told %d times, expected 1", notices)
	}
	if err := cancelled(append5(d)); err != nil {
		t.Errorf("work of a pool that does not tell: %v", err)
	}
	// It is said of one commit, and the connection stays in use.
	p.join(t)
	if err := append5(telling)(); err != nil || telling.Stat().NewConnsCount() != 1 {
		t.Errorf("the next commit, on %d connections: %v", telling.Stat().NewConnsCount(), err)
	}
	d.wantList(t, "x", "a", "a", "a")

	p.cut(t)
	claim6 := func() error { return telling.guard.Claim(t.Context(), fence("x", 6)) }
	wantOnly(t, cancelled(claim6), guard.ErrUnknown)
	wantOnly(t, cancelled(claim6), guard.ErrUnknown) // also where the mark stands already
	wantOnly(t, cancelled(func() error { return d.guard.Claim(t.Context(), fence("x", 6)) }), guard.ErrUnknown)
	if n := telling.Stat().NewConnsCount(); n != 1 {
		t.Errorf("%d connections were opened", n)
	}
	d.wantMark(t, "x", 6)
	p.crash()
	next := p.promote(t)
	next.wantMark(t, "x", 5)
	next.mustAppend(t, fence("x", 5), "late")
	next.mustClaim(t, fence("x", 6))
	wantOnly(t, next.append(t.Context(), fence("x", 5), "later"), guard.ErrStale)
}

// Where the standby is synchronous, a primary that goes on beside the promoted one tells
// nobody that a commit succeeded, and shows none of it; until it is restarted.
func TestOldPrimaryAloneAnswersNoCommit(t *testing.T) {
	p := streaming(t, true)
	old := p.first
	old.mustClaim(t, fence("x", 5))
	next := p.promote(t)
	next.mustClaim(t, fence("x", 6))
	next.mustAppend(t, fence("x", 6), "young")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end := p.held(t, func() error { return old.append(ctx, fence("x", 5), "late") })
	old.wantList(t, "x")
	p.crash()
	if err := <-end; !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("the zombie was told %v", err)
	}
	if err := p.primary.Run(); err != nil {
		t.Fatal(err)
	}
	old.Reset()
	// What nobody was told shows now on the old primary, which a client that is led
	// there believes; the guard here has never heard of token 6.
	old.wantMark(t, "x", 5)
	old.wantList(t, "x", "late")
	again := p.held(t, func() error { return old.append(t.Context(), fence("x", 5), "later") })
	next.wantList(t, "x", "young")
	wantOnly(t, next.append(t.Context(), fence("x", 5), "late"), guard.ErrStale)
	p.crash()
	<-again
}

// TestAsynchronousFailoverForgetsTheMark is the hole of a standby that is not
// waited for.
func TestAsynchronousFailoverForgetsTheMark(t *testing.T) {
	p := streaming(t, false)
	old := p.first
	old.mustClaim(t, fence("x", 5))
	old.mustAppend(t, fence("x", 5), "a")
	testwait.Until(t, bound, "a standby that has everything", func() bool {
		return old.count(t, `select count(*) from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()`) == 1
	})
	p.cut(t)
	old.mustClaim(t, fence("x", 6))
	old.mustAppend(t, fence("x", 6), "b")
	next := p.promote(t)

	// What was told is gone, the mark with the rest, and the zombie passes.
	next.wantMark(t, "x", 5)
	next.mustAppend(t, fence("x", 5), "late")
	next.wantList(t, "x", "a", "late")
	// Until somebody claims again.
	next.mustClaim(t, fence("x", 6))
	wantOnly(t, next.append(t.Context(), fence("x", 5), "later"), guard.ErrStale)

	// The old primary was not stopped. Two primaries do not guard together, also after
	// one of them came back from a crash: each knows only the tokens shown to it.
	next.mustClaim(t, fence("x", 7))
	if err := p.primary.Restart(); err != nil {
		t.Fatal(err)
	}
	old.Reset()
	old.mustAppend(t, fence("x", 6), "c")
	wantOnly(t, old.append(t.Context(), fence("x", 5), "late"), guard.ErrStale)
	wantOnly(t, next.append(t.Context(), fence("x", 6), "late"), guard.ErrStale)
	old.wantList(t, "x", "a", "b", "c")
	next.wantList(t, "x", "a", "late")
}
