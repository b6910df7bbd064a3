package guarddb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/pgdsn"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
)

// postgresMarks tells whom a claim waited for in vain.
type postgresMarks struct{ pgguard.Guard }

func (m postgresMarks) Claim(ctx context.Context, f guard.Fence) error {
	err := m.Guard.Claim(ctx, f)
	if !errors.Is(err, pgguard.ErrBusy) {
		return err
	}
	blockers, listing := m.Blockers(ctx, f.Resource)
	if listing != nil {
		return err
	}
	for _, b := range blockers {
		who := fmt.Sprintf("process %d", b.PID)
		if b.Prepared != "" {
			who = "the prepared transaction " + output.Text(b.Prepared)
		}
		if b.Token != 0 {
			who += " with token " + b.Token.String()
		}
		err = fmt.Errorf("%w; in the way is %s (role %s, application %s, %s) since %s",
			err, who, output.Text(b.Role), output.Text(b.Application), output.Text(b.State), b.Since.UTC().Format(time.RFC3339))
	}
	return err
}

// idleMax is how long a connection that is not used stays open: a run may look at a mark
// hours after its claim.
const idleMax = 30 * time.Second

func openPostgres(dsn, as string, wait time.Duration) (*DB, error) {
	db, err := pgdsn.Parse(dsn)
	if err != nil {
		return nil, ErrDSN
	}
	config := db.Config
	config.MaxConns, config.MinConns, config.MaxConnIdleTime, config.HealthCheckPeriod = 2, 0, idleMax, idleMax
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = as
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, ErrDSN
	}
	return &DB{
		marks: postgresMarks{pgguard.New(pool).Wait(max(wait, time.Millisecond))}, Close: pool.Close,
		Text: db.Text, explain: explainPostgres,
	}, nil
}

func explainPostgres(err error) (code int, advice string) {
	e, said := errors.AsType[*pgconn.PgError](err)
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case said && strings.HasPrefix(e.Code, "28"): // invalid authorization
		return exit.CodeDenied, ""
	case unconnected:
		return exit.CodeUnavailable, ""
	case errors.Is(err, pgguard.ErrNotInstalled):
		return exit.CodeData, "; \"pawl guard ddl --dialect postgres\" prints what makes it, and what brings an older one up to date"
	case errors.Is(err, pgguard.ErrBusy):
		return exit.CodeNotAcquired, ""
	case errors.Is(err, pgguard.ErrForbidden):
		return exit.CodeDenied, "; in psql, as the role that made the guard: SELECT pawl.admit('ROLE'), which gives pawl.claim and the sight of marks"
	case !said:
		return exit.CodeUnavailable, ""
	}
	return exit.CodeOther, ""
}
