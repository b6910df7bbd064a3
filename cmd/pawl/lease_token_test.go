package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// C72: how long others wait after a run was killed is short unless somebody says
// otherwise, is in the help, and is what they wait.
func TestCrashedHolderBlocksForOneTTL(t *testing.T) {
	flag := regexp.MustCompile(`--ttl \S+ +.*after a crash.*\(default (\S+)\)`)
	m := flag.FindStringSubmatch(want(t, 0, "run", "--help").stdout)
	if m == nil {
		t.Fatal("the help of run does not say what a crash costs")
	}
	if d, err := time.ParseDuration(m[1]); err != nil || d < 5*time.Second || d > 15*time.Second {
		t.Errorf("the default TTL is %s", m[1])
	}
	s := serve(t, "--store", "memory")
	const ttl = 4 * time.Second
	for _, args := range [][]string{{"--ttl", ttl.String()}, nil} {
		cmd := s.command(append(append([]string{"run", "a"}, args...), "--", "sleep", "1000")...)
		began := clock.Boottime()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		childOf(t, cmd.Process.Pid, "sleep")
		if args == nil {
			_, text := s.get("/v1/locks?name=a")
			listed := regexp.MustCompile(`"expires_in":"([^"]+)"`).FindStringSubmatch(text)
			if listed == nil {
				t.Fatalf("the listing is %s", text)
			}
			left, err := time.ParseDuration(listed[1])
			if most, _ := time.ParseDuration(m[1]); err != nil || left > most || left <= ttl {
				t.Errorf("the help says %s; the listing that it expires in %s", m[1], listed[1])
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed := clock.Boottime()
		_ = cmd.Wait() // its code tells
		if args == nil {
			continue
		}
		s.want(0, "run", "a", "-w", "1m", "--", "true")
		// How long before the kill it last renewed is the machine's doing, but it was
		// granted after it began.
		if now := clock.Boottime(); now-began < ttl || now-killed > ttl+20*time.Second {
			t.Errorf("the next one ran %v after the kill, %v after the beginning; the TTL is %v", now-killed, now-began, ttl)
		}
	}
}

// C86: every caller that asks for a lease's token gets the same answer, over
// restarts too; and every later one is higher.
func TestEveryCallerSeesTheSameToken(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	last := uint64(0)
	for round := range testwait.Reps(4) {
		s := serve(t, "--data", data)
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		c, err := pawl.Dial(ctx, []string{s.link}, pawl.Options{TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		l, err := c.Acquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		granted := strconv.FormatUint(uint64(l.Token()), 10)
		told := map[string]string{"fence of the SDK": strconv.FormatUint(uint64(l.Fence().Token), 10)}
		_, err = c.TryAcquire(ctx, "a")
		var held *pawl.HeldError
		if !errors.As(err, &held) {
			t.Fatalf("a second one: %v", err)
		}
		told["refusal of the SDK"] = strconv.FormatUint(uint64(held.Token), 10)
		told["show"] = s.show("a").Holders[0].FencingToken
		_, text := s.get("/v1/locks?name=a")
		var page struct {
			Locks []struct {
				Holders []struct {
					Token any `json:"fencing_token"`
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		told["GET /v1/locks"] = fmt.Sprint(page.Locks[0].Holders[0].Token)
		_, text = s.post("/v1/leases", `{"name":"a"}`)
		told["refusal over HTTP"] = read[struct {
			Holder struct {
				Token string `json:"fencing_token"`
			}
		}](t, text).Holder.Token
		told["refusal of run"] = regexp.MustCompile(`token (\d+)`).FindStringSubmatch(s.want(75, "run", "a", "-n", "--", "true").stderr + " token 0")[1]
		for who, token := range told {
			if token != granted {
				t.Errorf("round %d: %s says %s; %s was granted", round, who, token, granted)
			}
		}
		run := s.want(0, "run", "b", "--", "sh", "-c", "echo $PAWL_FENCING_TOKEN; echo $PAWL_FENCE").stdout
		tokens := append([]string{granted}, strings.Fields(run)[0], s.acquire("c", "--ttl", "1h", "--request-id", strconv.Itoa(round)).FencingToken)
		for _, text := range tokens {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil || n <= last || guard.Token(n) > guard.Max {
				t.Errorf("round %d: token %s after %d", round, text, last)
			}
			last = n
		}
		s.want(0, "break", "c", "--now", "--reason", "the round is over", "--token", tokens[2])
		_ = c.Close() // the lease ends with it
		cancel()
		s.stop([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[round%2])
	}
}
