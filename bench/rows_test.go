package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

func emptyRun(t *testing.T) *full {
	t.Helper()
	return &full{kit: kit{out: t.TempDir(), to: io.Discard}, report: newReport()}
}

func TestRowOmitsMissingTargets(t *testing.T) {
	f := emptyRun(t)
	var order []int
	err := f.row(t.Context(), row{name: "x", keys: []string{"redis"}, run: func(f *full, _ context.Context) error {
		for i := range 3 {
			f.atEnd(func() { order = append(order, i) })
		}
		return lacking("redis-server is not installed")
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.report.missing["redis"]; got != "redis-server is not installed" {
		t.Errorf("the aim lacks %q", got)
	}
	if got := f.report.parts["x"]; !strings.Contains(got, "Left out: redis-server is not installed.") {
		t.Errorf("the page says %q", got)
	}
	if !slices.Equal(order, []int{2, 1, 0}) {
		t.Errorf("ended in the order %v, want the last first", order)
	}
	if left, err := os.ReadDir(f.kit.out); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left, want nothing", left, err)
	}
}

func TestFailedRowKeepsLogs(t *testing.T) {
	f, broken := emptyRun(t), errors.New("broken")
	ended := false
	err := f.row(t.Context(), row{name: "x", run: func(f *full, _ context.Context) error {
		f.atEnd(func() { ended = true })
		return broken
	}})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), f.folder) || !ended {
		t.Errorf("%v, ended: %t; want the error and the folder", err, ended)
	}
	if _, err := os.Stat(f.folder); err != nil {
		t.Error(err)
	}
}
