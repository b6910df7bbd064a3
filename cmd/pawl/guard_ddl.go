package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/guarddb"
	"github.com/pawlproject/pawl/guard/objguard/s3bucket"
	"github.com/pawlproject/pawl/guard/pgguard"
	"github.com/pawlproject/pawl/guard/sqlguard"
)

func newGuardDDL() *cobra.Command {
	dialect := flags.Choice{Of: []string{"postgres", "sqlite", "s3"}}
	var enforce, enforceRows, grant []string
	var bucket string
	cmd := &cobra.Command{
		Use:   "ddl",
		Short: "Print the SQL that makes a database's guard, or a bucket's policy",
		Long: `Ddl prints the migration that makes the guard's tables, and for PostgreSQL its
functions, for those who keep their schema elsewhere. Run it in one transaction;
running it again changes nothing.

With --enforce every statement that writes TABLE, by whatever program, must stand
in a transaction that entered RESOURCE; with --enforce-rows each row belongs to the
resource that the text in COLUMN names, behind PREFIX. --grant lets a role use the
guard. TABLE is written as in SQL.

For s3 it prints a bucket policy of Amazon's S3 for --bucket s3://BUCKET/PREFIX: uploads
without a condition are denied to everybody there, and so is the deletion of a pointer.
CopyObject is denied too unless it carries a condition, and so are programs that upload
without one, such as "aws s3 cp". A bucket has one policy: join the statements with those
it has. It was not tried on Amazon's service.

Exit codes: 0 done, 64 invalid usage.`,
		Example: `  pawl guard ddl --dialect postgres | psql -1 -v ON_ERROR_STOP=1
  pawl guard ddl --dialect postgres --enforce accounts=billing --grant app
  pawl guard ddl --dialect postgres --enforce-rows orders=id:orders/
  pawl guard ddl --dialect sqlite | sqlite3 ledger.db
  pawl guard ddl --dialect s3 --bucket s3://my-bucket/guards > policy.json`,
		Args: flags.None,
	}
	f := cmd.Flags()
	f.Var(&dialect, "dialect", "the database")
	f.StringArrayVar(&enforce, "enforce", nil, "TABLE=RESOURCE, several times for several tables (postgres)")
	f.StringArrayVar(&enforceRows, "enforce-rows", nil, "TABLE=COLUMN or TABLE=COLUMN:PREFIX, several times for several tables (postgres)")
	f.StringArrayVar(&grant, "grant", nil, "role that may use the guard; repeat it for several roles (postgres)")
	f.StringVar(&bucket, "bucket", "", "s3://BUCKET/PREFIX that the policy is for (s3)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if dialect.Value == "s3" != (bucket != "") {
			return exit.Usage(cmd, "--dialect s3 needs --bucket s3://BUCKET/PREFIX, and no other dialect takes it")
		}
		if dialect.Value != "postgres" && len(enforce)+len(enforceRows)+len(grant) > 0 {
			return exit.Usage(cmd, "--enforce, --enforce-rows and --grant are for postgres: the others have no sessions that could be told apart, and no roles")
		}
		var text string
		switch dialect.Value {
		case "postgres":
			more, err := postgresRules(enforce, enforceRows, grant)
			if err != nil {
				return exit.Usage(cmd, "%v", err)
			}
			text = pgguard.DDL() + more
		case "sqlite":
			text = strings.Join(sqlguard.SQLite().DDL(), ";\n\n") + ";\n"
		case "s3":
			at, err := guarddb.ParseS3(bucket)
			if err != nil {
				return exit.Usage(cmd, "--bucket: %v", err)
			}
			policy, err := s3bucket.Policy(at.Bucket, at.Prefix)
			if err != nil {
				return exit.Usage(cmd, "--bucket: %v", err)
			}
			text = string(policy)
		default:
			return exit.Usage(cmd, "--dialect is missing; expected one of %s", strings.Join(dialect.Of, ", "))
		}
		if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
			return fmt.Errorf("print the migration: %w", err)
		}
		return nil
	}
	return cmd
}

// postgresRules is what follows the migration.
func postgresRules(enforce, enforceRows, grant []string) (string, error) {
	var b strings.Builder
	for _, e := range enforce {
		table, resource, err := pairOf("--enforce", "RESOURCE", e)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "SELECT pawl.enforce(%s::regclass, %s);\n", sqlText(table), sqlText(resource))
	}
	for _, e := range enforceRows {
		table, column, err := pairOf("--enforce-rows", "COLUMN", e)
		if err != nil {
			return "", err
		}
		column, prefix, _ := strings.Cut(column, ":")
		fmt.Fprintf(&b, "SELECT pawl.enforce_rows(%s::regclass, %s, %s);\n", sqlText(table), sqlText(column), sqlText(prefix))
	}
	for _, role := range grant {
		if role == "" {
			return "", errors.New("--grant names no role")
		}
		fmt.Fprintf(&b, "SELECT pawl.admit(%s);\n", sqlText(role))
	}
	if b.Len() == 0 {
		return "", nil
	}
	return "\n-- What was asked for beside.\n" + b.String(), nil
}

func pairOf(flag, what, given string) (table, value string, err error) {
	table, value, ok := strings.Cut(given, "=")
	if !ok || table == "" || value == "" || strings.HasPrefix(value, ":") {
		return "", "", fmt.Errorf("%s is %q; expected TABLE=%s", flag, given, what)
	}
	if strings.ContainsRune(given, 0) {
		return "", "", fmt.Errorf("%s is %q; a NUL cannot be written", flag, given)
	}
	return table, value, nil
}

// sqlText is s as a constant of SQL, which reads the same whatever the settings
// of the session.
func sqlText(s string) string {
	plain := true
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\'':
			b.WriteString("''")
		case r == '\\':
			plain = false
			b.WriteString(`\\`)
		case unicode.IsControl(r):
			plain = false
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	if plain {
		return "'" + b.String() + "'"
	}
	return "E'" + b.String() + "'"
}
