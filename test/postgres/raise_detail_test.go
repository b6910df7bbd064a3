//go:build unix

package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlproject/pawl/guard/pgguard"
)

// While the guard is installed for the first time psql prints no notices, which would
// read like failures.
func TestInstallSaysNothing(t *testing.T) {
	d := bare(t)
	config, err := pgx.ParseConfig(d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	var notices []string
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		notices = append(notices, n.Severity+": "+n.Message)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	if _, err := conn.Exec(t.Context(), begin+";"+pgguard.DDL()+";"+commit); err != nil {
		t.Fatal(err)
	}
	for _, n := range notices {
		t.Errorf("it says %q", n)
	}
}

// A statement by hand on a guarded table is answered with what to begin with.
func TestUnfencedStatementErrorSaysWhatToDo(t *testing.T) {
	d := fresh(t)
	d.mustExec(t, `create table whole (id int); create table each (id text);
		select pawl.enforce('whole', 'o''clock'); select pawl.enforce_rows('each', 'id')`)
	s := d.session(t)
	for write, hint := range map[string]string{
		`insert into whole values (1)`: `Begin the transaction with SELECT pawl.enter('o''clock', cell, token).`,
		`insert into each values ('')`: `Begin the transaction with SELECT pawl.enter(resource, cell, token).`,
	} {
		err := s.try(write)
		wantCode(t, err, "FE002")
		var e *pgconn.PgError
		if errors.As(err, &e) && e.Hint != hint {
			t.Errorf("%s: the hint is %q, expected %q", write, e.Hint, hint)
		}
	}
}

// That right is not the guard's to give.
func TestConnectRightIsNotAdvisedAway(t *testing.T) {
	d := fresh(t)
	outside := open(t, d.asRole(t, "outside"))
	d.mustExec(t, `revoke connect on database `+d.Config().ConnConfig.Database+` from public`)
	err := outside.guard.Claim(t.Context(), fence("x", 1))
	wantOnly(t, err, pgguard.ErrForbidden)
	if err == nil || strings.Contains(err.Error(), "pawl.admit") {
		t.Errorf("it is told %v, expected nothing of pawl.admit", err)
	}
}
