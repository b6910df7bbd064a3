package etcdstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

// partFull has a small file system to itself and fills it up.
const partFull = "full"

func init() { parts[partFull] = fillUp }

// A server runs on a small file system that fills up. It ends with a line that says
// why. Once there is room it goes on with all that it had acknowledged. The file system
// is a tmpfs in a namespace of its own.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a user namespace")
	}
	cmd := child(partFull, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES) || bytes.Contains(out, []byte(notAllowed)) {
		t.Fatalf("a user namespace is needed and not allowed here; allow it with: %s\n%v %s", allow(), err, out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

const notAllowed = "mount a tmpfs"

// allow is the one command that allows user namespaces on this system.
func allow() string {
	for _, knob := range []struct{ file, bad, command string }{
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"},
	} {
		now, err := os.ReadFile(filepath.Join("/proc/sys", knob.file))
		if err == nil && strings.TrimSpace(string(now)) == knob.bad {
			return knob.command
		}
	}
	return "docker run --privileged (a container's own rules forbid it)"
}

// fillUp is the part inside the namespace.
func fillUp(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=120m"); err != nil {
		return fmt.Errorf("%s: %w", notAllowed, err)
	}
	data, ballast := filepath.Join(dir, "data"), filepath.Join(dir, "ballast")
	var acknowledged uint64
	for round := 1; round <= 3; round++ {
		replayed, durable, last, err := untilFull(data, ballast, round)
		switch {
		case err != nil:
			return fmt.Errorf("round %d: %w", round, err)
		case replayed < acknowledged:
			return fmt.Errorf("round %d: %d was durable and replay ends at %d", round, acknowledged, replayed)
		case !strings.Contains(last, "the embedded store") || !strings.Contains(last, "no space left on device"):
			return fmt.Errorf("round %d: the last line does not say why: %q", round, last)
		}
		acknowledged = max(acknowledged, durable)
		fmt.Printf("round %d: replayed %d, durable %d, last line: %s\n", round, replayed, durable, last)
		// No room at all is not a room that is unknown.
		if free, err := (&folder{dir: data}).free(); err != nil || free >= 1<<16 || !(store.Usage{Free: free}).Tight() {
			return fmt.Errorf("%d bytes are free on a full disk, which is not tight: %v", free, err)
		}
		// Without room it refuses to start and says so.
		_, err = OpenEmbedded(context.Background(), EmbeddedOptions{Dir: data, Clock: clock.System(), Stderr: io.Discard})
		if !errors.Is(err, store.ErrFull) {
			return fmt.Errorf("start without room: %w", err)
		}
		if err := os.Remove(ballast); err != nil {
			return err
		}
	}
	return nil
}

// untilFull runs a server, takes all room away once it works, and waits until
// it ends.
func untilFull(data, ballast string, round int) (replayed, durable uint64, last string, err error) {
	cmd := child(partServer, data)
	cmd.Env = append(cmd.Env, fmt.Sprintf("PAWL_ETCDSTORE_TEST_NONCE=%d", round))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, "", err
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, "", err
	}
	lines := bufio.NewScanner(out)
	replayed, durable, err = watch(lines, func(said int) bool { return said >= 20 })
	if err == nil {
		err = fill(ballast)
	}
	_, more, err2 := watch(lines, func(int) bool { return false })
	if err := errors.Join(err, err2); err != nil {
		_ = cmd.Process.Kill()
		return 0, 0, "", err
	}
	if cmd.Wait() == nil {
		return 0, 0, "", errors.New("the server ended as if all were well")
	}
	ends := strings.Split(strings.TrimSpace(said.String()), "\n")
	return replayed, max(durable, more), ends[len(ends)-1], nil
}

// fill takes all the room there is.
func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 1<<16); ; {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
