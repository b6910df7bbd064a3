package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/testwait"
)

func TestSharedLeasesByCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	first := s.acquire("a", "--ttl", "1h", "--shared", "--label", "one")
	second := s.acquire("a", "--ttl", "1h", "-s", "--label", "two")
	if second.Fence != first.FencingToken || second.FencingToken == first.FencingToken {
		t.Errorf("two readers have %+v and %+v", first, second)
	}
	contains(t, s.want(0, "ls").stdout, "HELD", "shared", "one", "two")
	contains(t, s.want(0, "show", "a").stdout, "a is shared by one", "a is shared by two")
	contains(t, s.want(exit.CodeNotAcquired, "acquire", "a").stderr, "a is shared by one")
	if h := s.show("a").Holders; len(h) != 2 || !h[0].Shared || !h[1].Shared {
		t.Errorf("the holders are %+v", h)
	}
}

// C08, C41: what is in use and what is free add up, and a permit comes back once.
func TestSlotsByCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	var leases []lease
	for slot := 1; slot <= 3; slot++ {
		l := s.acquire("a", "--ttl", "1h", "--slots", "3")
		if l.Slot != slot {
			t.Errorf("slot %d is %+v", slot, l)
		}
		leases = append(leases, l)
		if l := s.show("a"); l.Slots != 3 || l.SlotsInUse != slot || len(l.Holders) != slot {
			t.Errorf("with %d slots in use the lock is %+v", slot, l)
		}
	}
	contains(t, s.want(exit.CodeNotAcquired, "acquire", "a", "--slots", "3").stderr, "no slot of a is free", "token "+leases[0].FencingToken)
	contains(t, s.want(exit.CodeUsage, "acquire", "a", "--slots", "2").stderr, "3 slots", "2 slots")
	contains(t, s.want(exit.CodeUsage, "acquire", "a").stderr, "3 slots", "a lock")
	contains(t, s.want(0, "ls").stdout, "slot 1 of 3", "slot 2 of 3", "slot 3 of 3")
	contains(t, s.want(0, "show", "a").stdout, "a: 3 of 3 slots in use", "slot 2 is held by")
	s.want(0, "release", leases[1].Lease)
	s.want(exit.CodeLost, "release", leases[1].Lease)
	contains(t, s.want(0, "show", "a").stdout, "a: 2 of 3 slots in use")
	if l := s.acquire("a", "--ttl", "1h", "--slots", "3"); l.Slot != 2 {
		t.Errorf("the slot that came free is %+v", l)
	}
}

func TestSeveralNamesByCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	l := s.acquire("a", "b", "a", "--ttl", "1h", "--label", "both")
	if len(l.Names) != 2 || l.Names[0].Name != "a" || l.Names[1].Name != "b" || l.Names[0].Fence != l.FencingToken || l.Name != "" || l.Fence != "" {
		t.Errorf("a lease of two names is %+v", l)
	}
	contains(t, s.want(exit.CodeNotAcquired, "acquire", "c", "b").stderr, `"b" is held`, "both", "token "+l.FencingToken)
	if c := s.show("c"); len(c.Holders) != 0 {
		t.Errorf("c is held although b was not to be had: %+v", c)
	}
	contains(t, s.want(exit.CodeNotAcquired, "acquire", "c", "b", "--wait", "1ms").stderr, "not granted within 1ms", "both")
	s.want(0, "release", l.Lease)
	contains(t, s.want(0, "show", "b").stdout, "b is free")
	if l := s.acquire("a", "a"); l.Name != "a" || l.Names != nil {
		t.Errorf("one name said twice is %+v", l)
	}
}

func TestValueAndLockDelayByCommand(t *testing.T) {
	s := serve(t, "--store", "memory")
	l := s.acquire("a", "--ttl", "1h", "--value", "10.0.0.2:8080\x1b[31m", "--lock-delay", "1h")
	if got := s.show("a"); string(got.Value) != "10.0.0.2:8080\x1b[31m" || got.ClosedFor != "0s" {
		t.Errorf("shown as %+v", got)
	}
	for _, r := range []result{s.want(0, "show", "a"), s.want(0, "ls")} {
		contains(t, r.stdout, "10.0.0.2:8080")
		if strings.Contains(r.stdout, "\x1b") {
			t.Errorf("a value reached the terminal: %q", r.stdout)
		}
	}
	s.want(0, "break", "a", "--token", l.FencingToken, "--reason", "r", "--now")
	contains(t, s.want(exit.CodeNotAcquired, "acquire", "a").stderr, "closed for")
	contains(t, s.want(0, "show", "a").stdout, "a is closed for ", "without its holder's doing")
	contains(t, s.want(0, "ls").stdout, "closed for ")
	s.acquire("a", "--shared", "--ttl", "1h")
	contains(t, s.want(0, "show", "a").stdout, "a is shared by", "a is closed to others for ")
	// C25: a delay of zero is none.
	for _, none := range [][]string{nil, {"--lock-delay", "0s"}} {
		l := s.acquire(append([]string{"b", "--ttl", "1h"}, none...)...)
		s.want(0, "break", "b", "--token", l.FencingToken, "--reason", "r", "--now")
		contains(t, s.want(0, "show", "b").stdout, "b is free")
	}
}

// What is used in another way is no matter of waiting: whatever asks for it ends
// with the same code, whichever way it asks, and -E changes nothing.
func TestConflictHasOneExitCode(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("gpu", "--ttl", "1h", "--slots", "2")
	s.acquire("once", "--ttl", "1h", "--request-id", "r")
	for _, args := range [][]string{
		{"acquire", "gpu"},
		{"acquire", "gpu", "--wait", "1h"},
		{"acquire", "other", "--request-id", "r"},
		{"run", "gpu", "--", "true"},
		{"run", "gpu", "-n", "-E", "0", "--", "true"},
		{"elect", "gpu", "--", "true"},
		{"elect", "gpu"},
		{"trace", "gpu"},
		{"trace", "gpu", "--unary"},
		{"trace", "gpu", "--http"},
	} {
		contains(t, s.want(exit.CodeUsage, args...).stderr, "pawl "+args[0]+": ")
	}
}

func TestRunTakesASlot(t *testing.T) {
	s := serve(t, "--store", "memory")
	s.acquire("gpu", "--ttl", "1h", "--slots", "2")
	cmd := s.command("run", "gpu", "--slots", "2", "--lock-delay", "0s", "--", "sh", "-c", `echo "$PAWL_SLOT|$PAWL_FENCE|$PAWL_FENCING_TOKEN|$PAWL_NAME|$PAWL_RESOURCE"`)
	cmd.Env = append(cmd.Env, "PAWL_SLOT=outer", "PAWL_RESOURCE=outer")
	r := finish(t, cmd)
	part := strings.Split(strings.TrimSpace(r.stdout), "|")
	if r.code != 0 || len(part) != 5 || part[0] != "2" || part[1] != part[2] || part[3] != "gpu" || part[4] != "gpu\x1f2" {
		t.Errorf("the command was told %+v", r)
	}
	r = s.want(0, "run", "other", "--", "sh", "-c", `echo "$PAWL_SLOT $PAWL_RESOURCE"`)
	if strings.TrimSpace(r.stdout) != "0 other" {
		t.Errorf("a command without a slot was told %q", r.stdout)
	}
	s.acquire("gpu", "--ttl", "1h", "--slots", "2")
	s.want(exit.CodeNotAcquired, "run", "gpu", "-n", "--slots", "2", "--", "true")
	want(t, exit.CodeUsage, "run", "gpu", "-s", "--slots", "2", "--", "true")
	want(t, exit.CodeUsage, "run", "gpu", "--slots", "0", "--", "true")
	want(t, exit.CodeUsage, "run", "gpu", "--lock-delay", "-1s", "--", "true")
}

// C41: the permit of a holder that died comes back, once.
func TestSlotOfADeadHolderComesBack(t *testing.T) {
	s := serve(t, "--store", "memory")
	other := s.acquire("gpu", "--ttl", "1h", "--slots", "2")
	dead := s.command("run", "gpu", "--slots", "2", "--ttl", "2s", "-k", "200ms", "--", "sleep", "1000")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "both slots are in use", func() bool { return s.show("gpu").SlotsInUse == 2 })
	_ = dead.Process.Kill() // it is ours and there
	_ = dead.Wait()
	if l := s.acquire("gpu", "--ttl", "1h", "--slots", "2", "--wait", "1m"); l.Slot != 2 {
		t.Errorf("after the death of slot 2 came %+v beside %+v", l, other)
	}
	s.want(exit.CodeNotAcquired, "acquire", "gpu", "--slots", "2")
}

func TestRunsShare(t *testing.T) {
	s := serve(t, "--store", "memory")
	reader := s.command("run", "a", "--shared", "--", "sleep", "1000")
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "it holds the name", func() bool { return len(s.show("a").Holders) == 1 })
	first := s.show("a").Holders[0].FencingToken
	r := s.want(0, "run", "a", "-s", "--", "sh", "-c", `echo "$PAWL_FENCE $PAWL_FENCING_TOKEN"`)
	fence, token, _ := strings.Cut(strings.TrimSpace(r.stdout), " ")
	if fence != first || token == first {
		t.Errorf("beside the reader %s came one with %q", first, r.stdout)
	}
	s.want(exit.CodeNotAcquired, "run", "a", "-n", "--", "true")
	if err := reader.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = reader.Wait() // its code is its command's
	s.want(0, "run", "a", "-n", "--", "true")
}

// A page of the largest values is no more than a command takes.
func TestLargeValuesAreListed(t *testing.T) {
	s := serve(t, "--store", "memory")
	value := base64.StdEncoding.EncodeToString(make([]byte, bounds.ValueMax))
	const n = 80
	for i := range n {
		if code, text := s.post("/v1/leases", fmt.Sprintf(`{"name":"n%02d","ttl":"1h","value":%q}`, i, value)); code != 200 {
			t.Fatalf("%d %s", code, text)
		}
	}
	if got := strings.Count(s.want(0, "ls", "--json").stdout, "\n"); got != n {
		t.Errorf("%d names are listed, expected %d", got, n)
	}
}

// C58: a job takes less time than its machines' clocks differ. Under a lease alone each
// machine runs it, one after the other; the script of docs/cli.md runs it once.
func TestSlotRunsCommandOnce(t *testing.T) {
	s := serve(t, "--store", "memory")
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)<!-- test: slot -->\n```sh\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/cli.md does not say how something is done once")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program("once", string(m[1]))
	program("report", "#!/bin/sh\necho ran >> "+dir+"/ran\n")
	if err := os.Symlink(self, filepath.Join(dir, "pawl")); err != nil {
		t.Fatal(err)
	}
	// Three machines for which it becomes the same minute one after the other.
	three := func(minute string, argv ...string) (runs int, codes []int) {
		program("date", "#!/bin/sh\necho "+minute+"\n")
		_ = os.Remove(filepath.Join(dir, "ran")) // there may be none yet
		for range 3 {
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Dir, cmd.Env = dir, append(s.command().Env, "PATH="+dir+":"+os.Getenv("PATH"))
			r := finish(t, cmd)
			codes = append(codes, r.code)
			testwait.Until(t, bound, "the work is over", func() bool {
				return s.want(0, "ls", "--json", "nightly").stdout == ""
			})
		}
		raw, err := os.ReadFile(filepath.Join(dir, "ran"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(raw), "ran"), codes
	}
	if runs, codes := three("2026-01-01T00:00", "./pawl", "run", "nightly", "-n", "--", "./report"); runs != 3 {
		t.Errorf("under a lease alone it ran %d times, %v", runs, codes)
	}
	for _, minute := range []string{"2026-01-01T00:00", "2026-01-01T00:01"} {
		if runs, codes := three(minute, "./once"); runs != 1 || fmt.Sprint(codes) != "[0 75 75]" {
			t.Errorf("%s: once ran it %d times, %v", minute, runs, codes)
		}
	}
}
