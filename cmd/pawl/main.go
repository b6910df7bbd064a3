package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// execute runs one command and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	code, message := exitOf(err)
	if message != "" {
		fmt.Fprintf(stderr, "%s: %s\n", cmd.CommandPath(), message)
	}
	return code
}
