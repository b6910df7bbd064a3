package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	tally := flag.String("tally", "", "append the counts to this `file`")
	total := flag.String("total", "", "print the sum of the counts in this `file` and stop")
	flag.Parse()
	if *total != "" {
		os.Exit(printTotal(*total))
	}
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(64)
	}
	code, err := run(flag.Args(), *tally)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs the command, shows its report and returns its exit code.
func run(command []string, tally string) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, fmt.Errorf("open pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start: %w", err)
	}
	r := newReport(os.Stdout)
	readErr := r.read(out)
	_, _ = io.Copy(io.Discard, out) // let the command finish, whatever we could not read
	code, waitErr := exitCode(cmd.Wait())
	c := r.finish(code)
	fmt.Println(c)
	if tally != "" {
		return code, errors.Join(readErr, waitErr, c.appendTo(tally))
	}
	return code, errors.Join(readErr, waitErr)
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1), nil // -1: ended by a signal
	default:
		return 1, fmt.Errorf("wait: %w", err)
	}
}

func printTotal(path string) int {
	c, err := readTally(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		return 1
	}
	fmt.Println(c)
	if c.failed > 0 {
		return 1
	}
	return 0
}
