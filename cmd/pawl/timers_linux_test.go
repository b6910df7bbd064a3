package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/testwait"
)

// TestCoarsenTimers: a server sleeps coarsely in every thread, under the process
// id that it was started with.
func TestCoarsenTimers(t *testing.T) {
	c := command(t, "serve", "--listen", "127.0.0.1:0", "--http", "off", "--store", "memory")
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
		if err == nil && strings.TrimSpace(string(slack)) != fmt.Sprint(timerSlack) {
			t.Errorf("thread %s sleeps up to %s ns longer; %d were expected", thread.Name(), strings.TrimSpace(string(slack)), timerSlack)
		}
	}
}
