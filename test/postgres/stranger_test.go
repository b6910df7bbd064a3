//go:build unix

package postgres

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard/pgguard"
	"github.com/pawlproject/pawl/internal/testwait"
)

// Every role that may connect can take advisory locks. So a role without any right to
// the guard can block claims and new transactions. The error names it, and transactions
// that have entered go on.
func TestForeignAdvisoryLockBlocksClaim(t *testing.T) {
	d := fresh(t)
	d.guard = d.guard.Wait(time.Millisecond)
	d.mustClaim(t, fence("x", 5))
	stranger := d.as(t, d.asRole(t, "stranger"))
	stranger.refused("42501", `select pawl.enter('x', '`+cell+`', 5)`)
	const lock = `(hashtextextended('x' collate "C", 1885435756) | '-9223372036854775808'::bigint)`
	stranger.must(`select pg_advisory_lock` + lock)
	wantOnly(t, d.guard.Claim(t.Context(), fence("x", 6)), pgguard.ErrBusy)
	wantOnly(t, d.append(t.Context(), fence("x", 5), "early"), pgguard.ErrBusy)
	blockers, err := d.guard.Blockers(t.Context(), "x")
	if err != nil || len(blockers) != 1 || blockers[0].PID != stranger.pid || blockers[0].Role != "stranger" || blockers[0].Token != 0 {
		t.Errorf("in the way: %+v, %v", blockers, err)
	}
	if n, err := d.guard.Terminate(t.Context(), fence("x", 6)); err != nil || n != 0 {
		t.Errorf("ended %d of no token, %v", n, err)
	}
	d.mustExec(t, `select pg_terminate_backend($1)`, stranger.pid)
	testwait.Until(t, time.Minute, "the stranger is gone", func() bool { return d.guard.Claim(t.Context(), fence("x", 6)) == nil })

	// Nobody can take away the lock of who is inside.
	inside := d.holds(t, fence("x", 6), "inside")
	other := d.as(t, d.asRole(t, "another_stranger"))
	other.must(`select pg_advisory_unlock`+lock, `select pg_advisory_unlock_shared`+lock, `select pg_advisory_unlock_all()`)
	if _, err := inside.Exec(t.Context(), `select pg_advisory_unlock_all(), pg_advisory_unlock_shared`+lock); err != nil {
		t.Fatal(err)
	}
	wantOnly(t, d.guard.Claim(t.Context(), fence("x", 7)), pgguard.ErrBusy)
	if err := inside.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.mustClaim(t, fence("x", 7))
	d.wantList(t, "x", "inside")
}
