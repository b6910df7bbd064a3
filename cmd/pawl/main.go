package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"

	_ "github.com/pawlproject/pawl/cmd/pawl/needsunix"
	"github.com/pawlproject/pawl/cmd/pawl/plain"
	"github.com/pawlproject/pawl/cmd/pawl/supervise"
)

func main() {
	// Before anything looks at signals or arguments; see supervise.
	if len(os.Args) > 1 && os.Args[1] == supervise.WatchCommand {
		os.Exit(supervise.WatcherMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		coarsenTimers()
	}
	takeSecrets()
	code, sig := execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
	if sig != 0 {
		die(sig)
	}
	os.Exit(code)
}

// execute runs one command and returns its exit code, and the signal that the
// process is to die of instead; 0: none.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) (code int, death syscall.Signal) {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	code, message := exitOf(err)
	if message != "" {
		fmt.Fprintf(stderr, "%s: %s\n", cmd.CommandPath(), plain.Text(withoutPasswords(message)))
	}
	return code, deathOf(err)
}
