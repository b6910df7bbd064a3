package main

import (
	"bufio"
	"fmt"
	"os"
)

// counts says how many tests and subtests ended how.
type counts struct{ passed, failed, skipped int }

const countsFormat = "%d passed, %d failed, %d skipped"

func (c counts) String() string {
	return fmt.Sprintf(countsFormat, c.passed, c.failed, c.skipped)
}

func (c counts) appendTo(path string) (err error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open tally: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("close tally: %w", cerr)
		}
	}()
	if _, err := fmt.Fprintln(f, c); err != nil {
		return fmt.Errorf("write tally: %w", err)
	}
	return nil
}

func readTally(path string) (counts, error) {
	f, err := os.Open(path)
	if err != nil {
		return counts{}, fmt.Errorf("open tally: %w", err)
	}
	defer f.Close()
	var sum counts
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c counts
		if _, err := fmt.Sscanf(lines.Text(), countsFormat, &c.passed, &c.failed, &c.skipped); err != nil {
			return counts{}, fmt.Errorf("read tally line %q: %w", lines.Text(), err)
		}
		sum.passed += c.passed
		sum.failed += c.failed
		sum.skipped += c.skipped
	}
	if err := lines.Err(); err != nil {
		return counts{}, fmt.Errorf("read tally: %w", err)
	}
	return sum, nil
}
