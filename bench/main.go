package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	k := kit{to: os.Stdout}
	flag.StringVar(&k.pawl, "pawl", "../.bin/pawl", "pawl's program")
	flag.StringVar(&k.etcd, "etcd", "../.bin/etcd", "etcd's program")
	flag.StringVar(&k.out, "out", "out", "folder for profiles, and for the servers' data meanwhile")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [flags] quick")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 || flag.Arg(0) != "quick" {
		flag.Usage()
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := k.settle()
	if err == nil {
		err = quick(ctx, k, quickPlan)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settle makes the folder for what comes out, and paths that hold everywhere.
func (k *kit) settle() error {
	for _, p := range []*string{&k.pawl, &k.etcd, &k.out} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	return os.MkdirAll(k.out, 0o755)
}
