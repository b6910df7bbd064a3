package etcdstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

func newSegments(folder string) *segments {
	return &segments{
		folder: folder, size: 3*segmentPiece + 100, free: func() (int64, error) { return 1 << 40, nil },
		clock: clock.System(), log: slog.New(slog.DiscardHandler),
	}
}

// lies returns the names in a folder.
func lies(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSegmentIsZeroFilled(t *testing.T) {
	s := newSegments(t.TempDir())
	if err := s.lay(t.Context(), "1.tmp"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(s.folder, "1.tmp"))
	if err != nil || !bytes.Equal(got, make([]byte, s.size)) {
		t.Fatalf("%d bytes, all zero: %v, %v; %d were wanted", len(got), bytes.Count(got, []byte{0}) == len(got), err, s.size)
	}
	if names := lies(t, s.folder); !slices.Equal(names, []string{"1.tmp"}) {
		t.Fatalf("%v lie there", names)
	}
}

// Neither a file that was there nor one that etcd made while ours was written.
func TestSegmentNeverReplaces(t *testing.T) {
	s := newSegments(t.TempDir())
	etcds := filepath.Join(s.folder, "0.tmp")
	take := func() {
		if err := os.WriteFile(etcds, []byte("etcd's"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		if got, err := os.ReadFile(etcds); err != nil || string(got) != "etcd's" {
			t.Fatalf("%q, %v", got, err)
		}
		if names := lies(t, s.folder); !slices.Equal(names, []string{"0.tmp"}) {
			t.Fatalf("%v lie there", names)
		}
	}
	take()
	if err := s.lay(t.Context(), "0.tmp"); err != nil {
		t.Fatal(err)
	}
	check()
	if err := os.Remove(etcds); err != nil {
		t.Fatal(err)
	}
	s.free = func() (int64, error) { // asked after the name was seen to be free
		take()
		return 1 << 40, nil
	}
	if err := s.lay(t.Context(), "0.tmp"); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestFailedSegmentIsRemoved(t *testing.T) {
	s := newSegments(t.TempDir())
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.lay(ended, "0.tmp"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.room = 1<<40 - s.size + 1 // one byte too few are free
	if err := s.lay(t.Context(), "0.tmp"); err != nil {
		t.Fatal(err)
	}
	if names := lies(t, s.folder); len(names) > 0 {
		t.Fatalf("%v lie there", names)
	}
	// A kill leaves one.
	if err := os.WriteFile(filepath.Join(s.folder, "zeros-17.tmp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.sweep()
	if names := lies(t, s.folder); len(names) > 0 {
		t.Fatalf("%v lie there", names)
	}
}

// Etcd writes its log over the zeros, and finds it again.
func TestEtcdUsesPreparedSegments(t *testing.T) {
	dir := t.TempDir()
	e := open(t, EmbeddedOptions{Dir: dir})
	s := segments{
		folder: e.folder.path("etcd/member/wal"), size: wal.SegmentSizeBytes,
		free: e.folder.free, clock: clock.System(), log: slog.New(slog.DiscardHandler),
	}
	ctx, end := context.WithCancel(t.Context())
	e.upkeep.Go(func() { s.keep(ctx, time.Millisecond) })
	laid := func() (ids []identity) {
		for _, name := range segmentNames {
			if id, err := identify(filepath.Join(s.folder, name)); err == nil {
				ids = append(ids, id)
			}
		}
		return ids
	}
	l := mustBegin(t, e, 1)
	testwait.Until(t, bound, "both names are laid", func() bool { return len(laid()) == len(segmentNames) })
	ours := laid()
	testwait.Until(t, bound, "etcd writes over one that was laid", func() bool {
		for range 20 {
			if err := l.land(t.Context(), 200_000); err != nil {
				t.Fatal(err)
			}
		}
		logs, err := filepath.Glob(filepath.Join(s.folder, "*.wal"))
		if err != nil {
			t.Fatal(err)
		}
		// The first is etcd's own, made before ours; what it took after it was ours.
		return len(logs) > 2 && slices.ContainsFunc(logs[2:], func(name string) bool {
			id, err := identify(name)
			return err == nil && slices.Contains(ours, id)
		})
	})
	last := l.last
	end()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(t, EmbeddedOptions{Dir: dir})
	if l := mustBegin(t, e, 2); l.replayed != last {
		t.Fatalf("replayed up to %d, %d were written", l.replayed, last)
	}
}
