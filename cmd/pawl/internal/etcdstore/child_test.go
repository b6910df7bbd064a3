package etcdstore

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// This binary plays other parts when the variable names one.
const (
	partVariable = "PAWL_ETCDSTORE_TEST_PART"
	// partServer opens the folder in its argument, says how far it replayed, and
	// appends for ever, saying each number once it is durable.
	partServer = "server"
)

// parts are what this binary can play, given a folder.
var parts = map[string]func(dir string) error{partServer: serve}

func play(part string) int {
	perform, ok := parts[part]
	if !ok {
		fmt.Fprintln(os.Stderr, "no part", part)
		return 3
	}
	if err := perform(os.Getenv("PAWL_ETCDSTORE_TEST_DIR")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

// child is this binary in another part.
func child(part, dir string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), partVariable+"="+part, "PAWL_ETCDSTORE_TEST_DIR="+dir)
	return cmd
}

func serve(dir string) error {
	ctx := context.Background()
	s, err := OpenEmbedded(ctx, EmbeddedOptions{Dir: dir, Token: "killed-0123456789abcdef", Clock: clock.System(), ActiveTTL: quick})
	if err != nil {
		return err
	}
	nonce, err := strconv.Atoi(os.Getenv("PAWL_ETCDSTORE_TEST_NONCE"))
	if err != nil {
		return err
	}
	l, err := begin(ctx, s, byte(nonce))
	if err != nil {
		return err
	}
	fmt.Println("replayed", l.replayed)
	for {
		if err := l.land(ctx, 1000); err != nil {
			return err
		}
		fmt.Println("durable", l.last)
		if l.last%300 == 0 {
			if err := insist(ctx, func() error { return l.snapshot(ctx) }); err != nil {
				return err
			}
		}
	}
}

// watch reads what a server says until it is enough or the server has ended. Of one
// server it reads with one scanner, which may have read more than it has given out.
// It returns how far the server replayed and the last number it called durable.
func watch(lines *bufio.Scanner, enough func(said int) bool) (replayed, durable uint64, err error) {
	for said := 0; lines.Scan(); said++ {
		word, number, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("the server says %q", lines.Text())
		}
		if word == "replayed" {
			replayed = n
		}
		durable = n
		if enough(said) {
			break
		}
	}
	return replayed, durable, lines.Err()
}

// The process is killed at any moment under appends; what it called durable is there at
// the next start, and the chain is whole.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	dir := filepath.Join(t.TempDir(), "data")
	const atLeast = 20
	var acknowledged uint64
	rng := rand.New(rand.NewPCG(1, 2))
	kills := testwait.Reps(50)
	for kill := 1; kill <= kills; kill++ {
		cmd := child(partServer, dir)
		cmd.Env = append(cmd.Env, fmt.Sprintf("PAWL_ETCDSTORE_TEST_NONCE=%d", kill))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		at := atLeast + rng.IntN(400)
		lines := bufio.NewScanner(out)
		replayed, durable, err := watch(lines, func(said int) bool { return said >= at })
		_ = cmd.Process.Kill()
		// What it still said before it died counts.
		_, more, err2 := watch(lines, func(int) bool { return false })
		waited := cmd.Wait()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if replayed < acknowledged {
			t.Fatalf("kill %d: %d was durable and replay ends at %d", kill, acknowledged, replayed)
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
			t.Fatalf("kill %d: the server ended by itself: %v", kill, waited)
		}
		acknowledged = max(acknowledged, durable, more)
	}
	if acknowledged < uint64(kills*atLeast) {
		t.Errorf("%d kills and only %d batches in all", kills, acknowledged)
	}
}

// The process is killed as soon as a fresh folder shows one thing after the other;
// whatever is there then, the next start makes a cell of it.
func TestKillWhileStarting(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	for _, shows := range []string{
		"lock", "node", "etcd", "etcd/member", "etcd/member/snap", "etcd/member/snap/db",
		"etcd/member/wal.tmp", "etcd/member/wal", "etcd/member/wal/0000000000000000-0000000000000000.wal",
	} {
		dir := filepath.Join(t.TempDir(), "data")
		cmd := child(partServer, dir)
		cmd.Env = append(cmd.Env, "PAWL_ETCDSTORE_TEST_NONCE=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// What shows only for a moment may be missed; the WAL stays.
		testwait.Until(t, bound, shows, func() bool {
			for _, name := range []string{shows, "etcd/member/wal"} {
				if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
					return true
				}
			}
			return false
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		s := open(t, EmbeddedOptions{Dir: dir})
		mustAppend(t, mustBegin(t, s, 2), 3)
		if formed, err := Formed(dir); !formed || err != nil {
			t.Errorf("a member that has served: formed %v, %v", formed, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
