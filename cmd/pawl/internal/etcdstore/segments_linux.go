package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

const (
	// segmentPiece is written and synced at once. A pause of segmentSpare times as long
	// follows, because appends share the disk.
	segmentPiece = 256 << 10
	segmentSpare = 4
	// zeros is what a segment is called until it is whole. etcd passes over names
	// that end so.
	zeros = "zeros-*.tmp"
)

// segmentNames are those under which etcd makes its next segment, in turn. It
// takes what it finds there.
var segmentNames = [...]string{"0.tmp", "1.tmp"}

// segments puts files of zeros where etcd looks for the next segment of its log. etcd
// itself only reserves the space. The file system must then record with every sync that
// another part of it is in use, which costs a second write or a turn of its journal. A
// sync over zeros that were written before is one write.
//
// A file gets its name when it is complete, by a rename that replaces nothing, so a
// name that etcd has taken stays etcd's. If etcd takes its files from elsewhere one
// day, ours stay unused.
type segments struct {
	folder string
	size   int64
	// free is the room on the disk, in bytes. What is laid leaves room of it: it must
	// not be why acquires are refused, or a start is.
	free  func() (int64, error)
	room  int64
	clock clock.Clock
	log   *slog.Logger
}

// laySegments has the member's segments laid until ctx ends, where that helps.
func (e *Embedded) laySegments(ctx context.Context) {
	s := segments{
		folder: e.folder.path("etcd/member/wal"), size: wal.SegmentSizeBytes,
		free: e.folder.free, room: store.FreeMin, clock: e.opts.Clock, log: e.opts.Logger,
	}
	if overwrites(s.folder) {
		s.keep(ctx, e.opts.ActiveTTL/10)
	}
}

// overwrites reports whether the file system writes over a file in place, and
// notes which of its reserved room is in use.
func overwrites(folder string) bool {
	var st unix.Statfs_t
	return unix.Statfs(folder, &st) == nil && (st.Type == unix.EXT4_SUPER_MAGIC || st.Type == unix.XFS_SUPER_MAGIC)
}

// keep looks after the names every pace until ctx ends, or until one cannot be
// laid: the log does without.
func (s *segments) keep(ctx context.Context, pace time.Duration) {
	s.sweep()
	t := s.clock.NewTimer()
	defer t.Stop()
	for {
		for _, name := range segmentNames {
			if err := s.lay(ctx, name); ctx.Err() == nil && err != nil {
				s.log.Info("no more segments of the log are prepared, so each sync costs more", "error", err)
				return
			}
		}
		t.Reset(pace)
		select {
		case <-ctx.Done():
			return
		case <-t.C():
		}
	}
}

// sweep removes what a killed server left unfinished.
func (s *segments) sweep() {
	left, _ := filepath.Glob(filepath.Join(s.folder, zeros)) // the pattern is well formed
	for _, name := range left {
		_ = os.Remove(name) // lies there unused
	}
}

// lay lays a segment under name when nothing is there.
func (s *segments) lay(ctx context.Context, name string) (err error) {
	to := filepath.Join(s.folder, name)
	if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if free, err := s.free(); err != nil || free < s.room+s.size {
		return err
	}
	f, err := os.CreateTemp(s.folder, zeros)
	if err != nil {
		return fmt.Errorf("prepare a segment: %w", err)
	}
	laid := false
	defer func() {
		err = errors.Join(err, f.Close())
		if !laid {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := s.fill(ctx, f); err != nil {
		return fmt.Errorf("prepare a segment: %w", err)
	}
	err = unix.Renameat2(unix.AT_FDCWD, f.Name(), unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if laid = err == nil; laid || errors.Is(err, unix.EEXIST) {
		return nil
	}
	return fmt.Errorf("prepare a segment: name it %s: %w", to, err)
}

// fill writes zeros, at the pace that is left to it.
func (s *segments) fill(ctx context.Context, f *os.File) error {
	piece := make([]byte, segmentPiece)
	t := s.clock.NewTimer()
	defer t.Stop()
	for at := int64(0); at < s.size; at += segmentPiece {
		began := s.clock.Now()
		if _, err := f.WriteAt(piece[:min(segmentPiece, s.size-at)], at); err != nil {
			return err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return fmt.Errorf("sync %s: %w", f.Name(), err)
		}
		t.Reset(segmentSpare * s.clock.Now().Longer(began))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C():
		}
	}
	return nil
}
