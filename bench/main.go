package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// kit is where the binaries are and where results go.
type kit struct {
	pawl, etcd, out string
	to              io.Writer
}

func main() {
	if len(os.Args) < 2 || os.Args[1] != "quick" && os.Args[1] != "full" {
		explain()
	}
	k, d := kit{to: os.Stdout}, demand{}
	f := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	f.StringVar(&k.pawl, "pawl", "../.bin/pawl", "pawl's program")
	f.StringVar(&k.etcd, "etcd", "../.bin/etcd-3.7", "etcd's program")
	f.StringVar(&k.out, "out", "out", "folder for profiles, and for the servers' data meanwhile")
	if os.Args[1] == "full" {
		f.StringVar(&d.rows, "rows", "", "the rows to measure, separated by commas; empty: all of them")
		f.StringVar(&d.page, "page", "../docs/performance.md", "page whose tables are written; empty: none")
		f.IntVar(&d.leases, "leases", 0, "hold as many instead of a million; writes no page")
		f.IntVar(&d.sessions, "sessions", 0, "renew as many instead of 10,000; writes no page")
		f.BoolVar(&d.smoke, "smoke", false, "run everything at a hundredth, to see that it runs; writes no page")
		f.DurationVar(&d.budget, "budget", 30*time.Minute, "about how long it may take")
	}
	_ = f.Parse(os.Args[2:]) // it exits
	if f.NArg() != 0 {
		explain()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := k.prepare()
	switch {
	case err != nil:
	case os.Args[1] == "quick":
		err = quick(ctx, k, quickPlan)
	default:
		err = runFull(ctx, k, d)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func explain() {
	fmt.Fprintln(os.Stderr, "usage: bench quick [flags]\n       bench full [flags]\n\nrows of a full run:")
	for _, r := range rows {
		fmt.Fprintf(os.Stderr, "  %-9s %s\n", r.name, r.about)
	}
	os.Exit(64)
}

// prepare makes the folder for the results, and makes all paths absolute.
func (k *kit) prepare() error {
	for _, p := range []*string{&k.pawl, &k.etcd, &k.out} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	return os.MkdirAll(k.out, 0o755)
}

// data makes a folder for servers' data, on the disk of what comes out.
func (k kit) data() (folder string, remove func(), err error) {
	if folder, err = os.MkdirTemp(k.out, "data-"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) } // what stays is seen there
	// A server that refuses to run as root must reach its own.
	if err := os.Chmod(folder, 0o755); err != nil {
		remove()
		return "", nil, err
	}
	return folder, remove, nil
}
