package endtoend

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlproject/pawl/internal/testpostgres"
)

// createDatabase makes an empty database and returns its connection string.
func createDatabase(ctx context.Context, s *testpostgres.Server, name string) (string, error) {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "create database "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	return s.DSN(name), nil
}
