package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/pawlproject/pawl"
)

// pawlSide is a pawl server on its embedded store and one client.
type pawlSide struct {
	*process
	client *pawl.Client
	debug  string
}

func startPawl(ctx context.Context, binary, folder string) (*pawlSide, error) {
	var link, debug string
	if err := freeAddresses(&link, &debug); err != nil {
		return nil, err
	}
	p, err := start(folder, "pawl", binary, "serve", "--log-level", "warn",
		"--listen", link, "--http", "off", "--debug-listen", debug, "--data", filepath.Join(folder, "pawl"))
	if err != nil {
		return nil, err
	}
	s := &pawlSide{process: p, debug: debug}
	err = p.until(ctx, func(ctx context.Context) (err error) {
		s.client, err = pawl.Dial(ctx, []string{link}, pawl.Options{Label: "bench"})
		return err
	})
	if err != nil {
		p.stop()
		return nil, err
	}
	return s, nil
}

func (s *pawlSide) close() {
	_ = s.client.Close() // the server ends next
	s.stop()
}

func (s *pawlSide) take(ctx context.Context, name string) (func(context.Context) error, error) {
	l, err := s.client.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// pairs gives every caller a name of its own.
func (s *pawlSide) pairs(ctx context.Context, caller int) (func(context.Context) error, error) {
	return s.take(ctx, fmt.Sprintf("bench/%d", caller))
}

// turns lets all callers take one name.
func (s *pawlSide) turns(ctx context.Context, _ int) (func(context.Context) error, error) {
	return s.take(ctx, "bench/turns")
}
