package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/authfile"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bearer"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/infile"
)

func newAuth() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Make credentials, and check the file that says who may do what",
		Long: `Auth makes what "serve --auth-file" needs. It asks no server. docs/security.md
describes the file.`,
		Args: flags.Unknown,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuthNew(), newAuthHash(), newAuthCheck())
	return cmd
}

func newAuthNew() *cobra.Command {
	var prefix, out, file string
	var allow []string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Draw a credential, and print the identity for the auth file",
		Long: `New draws a credential of 256 random bits and prints it, this once, and the lines
for the auth file, which has its hash alone. With --out the credential goes to a
new file that only its owner can read, as --credential-file and
PAWL_CREDENTIAL_FILE take it. With --file the lines go to the end of the auth file,
which is made if there is none, and are not printed. Without it they belong below
the line "identities:".`,
		Example: `  pawl auth new billing --prefix billing/
  pawl auth new billing --prefix billing/ --allow read,hold --out billing.credential --file auth.yaml`,
		Args: flags.Names("NAME"),
	}
	f := cmd.Flags()
	f.StringVar(&prefix, "prefix", "", "prefix of the names that the rights are for; '': every name (required)")
	f.StringSliceVar(&allow, "allow", []string{"read", "hold"}, "rights: read, hold, break, admin")
	f.StringVar(&out, "out", "", "new file for the credential")
	f.StringVar(&file, "file", "", "auth file that the identity is added to; it is made when it is not there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var rights []access.Right
		for _, a := range allow {
			r, err := access.ParseRight(a)
			if err != nil {
				return exit.Usage(cmd, "--allow: %v", err)
			}
			rights = append(rights, r)
		}
		if !cmd.Flags().Changed("prefix") {
			return exit.Usage(cmd, "--prefix is missing; expected that of the names, or '' for every name")
		}
		if prefix != "" {
			if err := bounds.ValidName(prefix); err != nil {
				return exit.Usage(cmd, "--prefix: %v", err)
			}
		}
		secret := access.NewCredential()
		entry := authfile.Line(args[0], access.DigestOf(secret), prefix, rights)
		if _, err := authfile.Parse([]byte("identities:\n" + entry)); err != nil {
			return exit.Usage(cmd, "NAME: %v", err)
		}
		more := ""
		if file != "" {
			var err error
			if more, err = addition(cmd, file, args[0], entry); err != nil {
				return err
			}
		}
		if out != "" {
			if err := writeNew(out, secret+"\n"); err != nil {
				return exit.Failed(exit.CodeOther, "--out: %v", err)
			}
		}
		if file != "" {
			if err := appendTo(file, more); err != nil {
				return exit.Failed(exit.CodeOther, "--file: %v", err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s is in %s; a server that runs reads it upon HUP\n", output.Text(args[0]), output.Text(file))
			entry = ""
		}
		w := cmd.OutOrStdout()
		if out == "" {
			fmt.Fprintf(w, "# The credential of %s. It is shown this once; keep it where only its owner reads.\n%s\n", output.Text(args[0]), secret)
			if entry != "" {
				fmt.Fprintf(w, "\n# For the auth file, below \"identities:\":\n")
			}
		}
		fmt.Fprint(w, entry)
		return nil
	}
	return cmd
}

// addition is what the auth file gets, checked with all that is there.
func addition(cmd *cobra.Command, file, name, entry string) (string, error) {
	old, _, err := infile.Read(file, authfile.BytesMax, clock.System().Wall())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", exit.Failed(exit.CodeOther, "--file: %v", err)
	}
	if there, err := authfile.Parse(old); err == nil && there.Identity(name) != nil {
		return "", exit.Usage(cmd, "--file: %s has the identity %s already; to give it another credential, put the hash of one (pawl auth hash) into its \"credentials:\"",
			file, output.Text(name))
	}
	more, err := authfile.Add(old, entry)
	if err != nil {
		return "", exit.Usage(cmd, "--file: %s does not take it at its end: %v", file, err)
	}
	return more, nil
}

// appendTo adds to the end of a file, in one write: half an entry allows nothing. A
// new one is for its owner alone.
func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// writeNew writes a file that was not there, for its owner alone.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func newAuthHash() *cobra.Command {
	return &cobra.Command{
		Use:   "hash",
		Short: "Print the hash of a credential that the standard input holds",
		Long: fmt.Sprintf(`Hash reads a credential from the standard input and prints its hash as it stands in
the auth file. The credential must be drawn at random: %d characters at least. A
password that somebody thought of is none: its hash can be guessed.`, access.CredentialMin),
		Example: `  (umask 077; openssl rand -hex 32 | tee billing.credential | pawl auth hash)`,
		Args:    flags.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), access.CredentialMax+3))
			if err != nil {
				return exit.Failed(exit.CodeOther, "read the standard input: %v", err)
			}
			secret := strings.TrimRight(string(raw), "\r\n")
			if err := errors.Join(access.CheckCredential(secret), bearer.Check(secret)); err != nil {
				return exit.Usage(cmd, "%v", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), access.DigestOf(secret))
			return nil
		},
	}
}

func newAuthCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check an auth file",
		Long: `Check reads an auth file as "serve --auth-file" does, and says what is wrong with
it, before a server is told (HUP) to read it.`,
		Example: `  pawl auth check auth.yaml && systemctl reload pawl`,
		Args:    flags.Names("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, open, err := authfile.Read(args[0], clock.System().Wall())
			if err != nil {
				return exit.Failed(exit.CodeUsage, "%v", err)
			}
			if open {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: others than its owner may read or write %s; expected mode 600, or 640 where it is root's\n", output.Text(args[0]))
			}
			if p.Len() == 1 {
				fmt.Fprintln(cmd.OutOrStdout(), "1 identity")
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "%d identities\n", p.Len())
			}
			return nil
		},
	}
}
