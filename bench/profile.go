package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"
)

// profiles shows where the time goes at one and at 64 callers: the server's CPU
// and the client's, which is this process.
func profiles(ctx context.Context, k kit, p plan, us *pawlSide) error {
	for _, callers := range []int{1, 64} {
		server := filepath.Join(k.out, fmt.Sprintf("server-%d.pprof", callers))
		client := filepath.Join(k.out, fmt.Sprintf("client-%d.pprof", callers))
		fetched := make(chan error, 1)
		go func() { fetched <- fetchProfile(ctx, us.server.debug, p.profiled, server) }()
		err := profiled(client, func() error {
			_, err := measure(ctx, trial{callers: callers, span: p.profiled + time.Second/2, take: us.pairs})
			return err
		})
		if err := errors.Join(err, <-fetched); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		fmt.Fprintf(k.to, "profiles of pawl at %d callers: go tool pprof -top %s; go tool pprof -top %s\n", callers, server, client)
	}
	return nil
}

// fetchProfile saves a profile of the server's CPU.
func fetchProfile(ctx context.Context, address string, d time.Duration, to string) error {
	return fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, int(d.Seconds())), to)
}

// fetchHeap saves what lies on the server's heap after a collection.
func fetchHeap(ctx context.Context, address, to string) error {
	return fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/heap?gc=1", address), to)
}

func fetch(ctx context.Context, url, to string) error {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(ask)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, r.Status)
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r.Body)
	return errors.Join(err, f.Close())
}

// profiled saves a profile of this process while it does its work.
func profiled(to string, work func() error) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	err = work()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}
