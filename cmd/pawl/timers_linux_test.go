package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/cmd/pawl/internal/tuning"
	"github.com/pawlproject/pawl/internal/testwait"
)

// A server sleeps coarsely in every thread, under the process id that it was started
// with, unless its operator switches that off.
func TestSetTimerSlack(t *testing.T) {
	own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("on", func(t *testing.T) { sleepsCoarsely(t, tuning.TimerSlack) })
	t.Run("off", func(t *testing.T) { sleepsCoarsely(t, own, "PAWL_TIMER_SLACK=off") })
}

// sleepsCoarsely starts a server and checks by how many nanoseconds its threads may
// oversleep.
func sleepsCoarsely(t *testing.T, want int, env ...string) {
	c := command(t, "serve", "--listen", "127.0.0.1:0", "--http", "off", "--store", "memory")
	c.Env = append(c.Environ(), env...)
	said, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	c.Stderr = said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	testwait.Until(t, time.Minute, "the server is ready", func() bool {
		log, err := os.ReadFile(said.Name())
		return err == nil && strings.Contains(string(log), "msg=ready")
	})
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		slack, err := os.ReadFile("/proc/" + thread.Name() + "/timerslack_ns")
		if err == nil && strings.TrimSpace(string(slack)) != fmt.Sprint(want) {
			t.Errorf("thread %s sleeps up to %s ns longer; %d were expected", thread.Name(), strings.TrimSpace(string(slack)), want)
		}
	}
}
