package etcdstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

// FreeStart is the room that a data folder must have for a server to start.
const FreeStart = 64 << 20

// lockWait bounds how long a start waits for a server that is just ending.
const (
	lockWait = 500 * time.Millisecond
	lockPoll = 10 * time.Millisecond
)

// ErrInUse: another server holds the data folder.
var ErrInUse = errors.New("another server has the data folder")

// folder is a locked data folder.
type folder struct {
	dir   string
	lock  *os.File
	dirID identity
	// lockID is what the lock's name must go on leading to.
	lockID identity
}

// identity tells a file from every other on this machine.
type identity struct {
	dev, ino uint64
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// openFolder makes dir where it is missing and locks it; at least room bytes must
// be free.
func openFolder(ctx context.Context, dir string, room int64, clk clock.Clock) (_ *folder, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	f := &folder{dir: dir}
	free, err := f.free()
	if err != nil {
		return nil, err
	}
	if free < room {
		return nil, fmt.Errorf("%w: %d MiB are free under %s and at least %d are needed to start", store.ErrFull, free>>20, dir, room>>20)
	}
	f.lock, err = os.OpenFile(f.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, unix.EISDIR) {
		return nil, fmt.Errorf("%w: %s is not a file; remove it", store.ErrDamaged, f.path("lock"))
	}
	if err != nil {
		return nil, fmt.Errorf("open the data folder's lock: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.lock.Close()
		}
	}()
	if err := f.take(ctx, clk); err != nil {
		return nil, err
	}
	if f.dirID, err = identify(f.dir); err != nil {
		return nil, err
	}
	f.lockID, err = identify(f.path("lock"))
	return f, err
}

// warnOpen warns where others than its owner may put files into the folder or take
// them away. What they may only list is of no use to them: the files are the owner's.
func (f *folder) warnOpen(log *slog.Logger) {
	st, err := os.Stat(f.dir)
	if err == nil && st.Mode().Perm()&0o022 != 0 {
		log.Warn("data folder: others than its owner may change it; expected mode 700", "path", f.dir, "mode", fmt.Sprintf("%o", st.Mode().Perm()))
	}
}

// take locks the folder, or says who holds it.
func (f *folder) take(ctx context.Context, clk clock.Clock) error {
	timer := clk.NewTimer()
	defer timer.Stop()
	for begun := clk.Now(); ; {
		err := unix.Flock(int(f.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f.sign()
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock the data folder %s: %w", f.dir, err)
		}
		if clk.Now().Longer(begun) >= lockWait {
			who, _ := os.ReadFile(f.path("lock"))
			return fmt.Errorf("%w: %s is in use by pid %s", ErrInUse, f.dir, strings.TrimSpace(string(who)))
		}
		timer.Reset(lockPoll)
		select {
		case <-timer.C():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *folder) sign() error {
	name := fmt.Appendf(nil, "%d\n", os.Getpid())
	_, err := f.lock.WriteAt(name, 0)
	if err == nil {
		err = f.lock.Truncate(int64(len(name)))
	}
	if err != nil {
		return fmt.Errorf("sign the data folder's lock: %w", err)
	}
	return nil
}

func (f *folder) unlock() error { return f.lock.Close() }

// same reports whether the folder and its lock still lie where they did.
func (f *folder) same() error {
	for name, want := range map[string]identity{f.dir: f.dirID, f.path("lock"): f.lockID} {
		got, err := identify(name)
		if err != nil {
			return fmt.Errorf("%w: the data folder was taken away under this server: %w", store.ErrRolledBack, err)
		}
		if got != want {
			return fmt.Errorf("%w: %s was replaced under this server, whose writes nobody would find", store.ErrRolledBack, name)
		}
	}
	return nil
}

func identify(name string) (identity, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return identity{}, fmt.Errorf("look at %s: %w", name, err)
	}
	// Other systems have other widths.
	return identity{dev: uint64(st.Dev), ino: uint64(st.Ino)}, nil
}

// free is the room under the folder for a process without special rights, in
// bytes; at least one, since a store.Usage of 0 is unknown.
func (f *folder) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(f.dir, &st); err != nil {
		return 0, fmt.Errorf("look at the room under %s: %w", f.dir, err)
	}
	return max(1, int64(st.Bavail)*int64(st.Bsize)), nil
}

// nodeID reads the node's id, and draws it where there is none.
func (f *folder) nodeID() (id [16]byte, err error) {
	raw, err := os.ReadFile(f.path("node"))
	switch {
	case err == nil:
		n, err := hex.Decode(id[:], []byte(strings.TrimSpace(string(raw))))
		if err != nil || n != len(id) {
			return id, fmt.Errorf("%w: %s does not hold an id of 32 hex digits; remove it, and another is drawn", store.ErrDamaged, f.path("node"))
		}
		return id, nil
	case errors.Is(err, unix.EISDIR):
		return id, fmt.Errorf("%w: %s is not a file; remove it, and an id is drawn", store.ErrDamaged, f.path("node"))
	case !errors.Is(err, os.ErrNotExist):
		return id, fmt.Errorf("read the node's id: %w", err)
	}
	_, _ = rand.Read(id[:])
	return id, f.replace("node", []byte(hex.EncodeToString(id[:])+"\n"))
}

// replace writes a small file so that it is always whole.
func (f *folder) replace(name string, content []byte) (err error) {
	fresh, err := os.CreateTemp(f.dir, name+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path(name), err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(fresh.Name())
			err = fmt.Errorf("write %s: %w", f.path(name), err)
		}
	}()
	_, err = fresh.Write(content)
	err = errors.Join(err, fresh.Sync(), fresh.Close())
	if err != nil {
		return err
	}
	return os.Rename(fresh.Name(), f.path(name))
}

// forming marks a folder whose member has never served.
const forming = "forming"

// Formed reports whether dir holds a member that has served. What a start that
// was killed before that left behind is not one.
func Formed(dir string) (bool, error) {
	f := folder{dir: dir}
	half, err := f.has(recovering)
	if err != nil {
		return false, err
	}
	if half {
		complete, err := f.has(filepath.Join(recovering, built))
		if err != nil {
			return false, err
		}
		instead := ""
		if !complete {
			instead = fmt.Sprintf(", or remove %s to go on with the member as it was", f.path(recovering))
		}
		return false, fmt.Errorf("%w: a recovery of %s was interrupted; run \"pawl member recover\" again%s", store.ErrDamaged, dir, instead)
	}
	switch _, err := os.Stat(f.path(forming)); {
	case err == nil:
		return false, nil
	case !errors.Is(err, os.ErrNotExist):
		return false, fmt.Errorf("look into the data folder: %w", err)
	}
	_, err = os.Stat(f.path("etcd"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look into the data folder: %w", err)
	}
	return true, nil
}

// form clears the folder for a new member if none has served in it. A member that was
// killed between creating its log and writing the first entry would never elect itself,
// and would wait for ever; it has acknowledged nothing.
func (f *folder) form() error {
	formed, err := Formed(f.dir)
	if err != nil || formed {
		return err
	}
	if err := f.replace(forming, nil); err != nil {
		return err
	}
	if err := f.sync(); err != nil {
		return err
	}
	if err := os.RemoveAll(f.path("etcd")); err != nil {
		return fmt.Errorf("remove what an unfinished start left: %w", err)
	}
	return nil
}

// formed takes the mark away, for good, before anything is acknowledged.
func (f *folder) formed() error {
	if err := os.Remove(f.path(forming)); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("mark the member as formed: %w", err)
	}
	return f.sync()
}

// sync has the folder's names on the disk.
func (f *folder) sync() error {
	dir, err := os.Open(f.dir)
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("sync the data folder: %w", err)
	}
	return nil
}

// has reports whether there is a file of this name.
func (f *folder) has(name string) (bool, error) {
	_, err := os.Stat(f.path(name))
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return err == nil, nil
	}
	return false, fmt.Errorf("look into the data folder: %w", err)
}

// remove takes a file away for good.
func (f *folder) remove(name string) error {
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", f.path(name), err)
	}
	return f.sync()
}
