//go:build unix

package pgtest

import (
	"testing"

	"github.com/pawlproject/pawl/guard"
)

// A transaction under one snapshot may raise the mark only where it sees all that the
// holders before it did. What commits after its snapshot is of one of two kinds: it
// had no number when the snapshot was taken, or it had one and was in progress.
//
//  1. A holder under token 5 is inside the guard and has a number.
//  2. Another transaction begins later and commits, or does not.
//  3. The next holder takes its snapshot, and waits for the first to raise the mark
//     to 6.
//  4. The first commits: the snapshot of the next is too old.
func TestRaiseRefusedWhenHolderCommitsAfterSnapshot(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		for what, inProgress := range map[string]bool{"no number yet": false, "in progress": true} {
			t.Run(level+", "+what, func(t *testing.T) {
				d := fresh(t)
				d.mustClaim(t, fence("x", 5))
				holder := d.holds(t, fence("x", 5), "early")
				if inProgress {
					d.mustExec(t, `insert into list (resource, text) values ('other', 'later')`)
				}
				next := d.session(t)
				next.must("begin isolation level " + level)
				raised := next.blocked("select pawl.enter('x', '" + cell + "', 6)")
				if err := holder.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantEnd(t, raised, "40001")
				next.must("rollback")
				if s, err := d.guard.Seen(t.Context(), "x"); err != nil || s.Seen != guard.Token(5) {
					t.Errorf("the mark is %+v, %v", s, err)
				}

				// Repeated, it sees what the first did.
				next.must("begin isolation level "+level, "select pawl.enter('x', '"+cell+"', 6)")
				var text string
				if err := next.QueryRow(t.Context(), `select text from list where resource = 'x'`).Scan(&text); err != nil || text != "early" {
					t.Errorf("the next holder reads %q, %v", text, err)
				}
				next.must("commit")
			})
		}
	}
}
