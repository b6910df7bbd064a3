package main

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/internal/testwait"
)

type outcome struct {
	Lost    string
	Refused bool   `json:"late_write_refused"`
	First   string `json:"token_a"`
	Second  string `json:"token_b"`
	Ledger  []struct{ Who, Balance string }
}

// C33: the late write of a holder that was held up is refused by the resource.
func TestDemoZombie(t *testing.T) {
	temp := t.TempDir()
	cmd := command(t, "demo", "zombie", "--json")
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	r := finish(t, cmd)
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("it ended with %+v", r)
	}
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	v := read[struct {
		What               string
		OK                 bool
		Unguarded, Guarded outcome
	}](t, lines[len(lines)-1])
	if v.What != "verdict" || !v.OK {
		t.Errorf("the verdict is %+v", v)
	}
	if u := v.Unguarded; u.Lost != "20" || u.Refused || u.First >= u.Second || len(u.Ledger) != 3 || u.Ledger[2].Balance != "110" {
		t.Errorf("without the guard: %+v", u)
	}
	if g := v.Guarded; g.Lost != "0" || !g.Refused || g.First >= g.Second || len(g.Ledger) != 3 || g.Ledger[2].Balance != "130" {
		t.Errorf("with the guard: %+v", g)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("it left %v behind (%v)", left, err)
	}
}

func TestDemoOutput(t *testing.T) {
	r := want(t, 0, "demo", "zombie")
	contains(t, r.stdout, "SIGSTOP", "SIGCONT", "LOST: 20. The balance should be 130.", "REFUSED by the ledger", "Nothing is lost.")
	if strings.Contains(r.stdout, "\x1b") {
		t.Error("there is colour where there is no terminal")
	}
}

// After an interrupt nothing of the demo is left; after a kill there remain
// its folder, and no process.
func TestDemoInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		temp := t.TempDir()
		cmd := command(t, "demo", "zombie", "--json", "--ttl", "10s")
		cmd.Env = append(cmd.Env, "TMPDIR="+temp)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		address := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			m := read[struct{ Who, What, Text string }](t, lines.Text())
			if m.What == "started" {
				address = regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(m.Text)
			}
			if m.Who == "B" && m.What == "asks" { // A is stopped, B waits
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		_ = cmd.Wait() // its code tells
		if code := shellCode(cmd.ProcessState); sig != syscall.SIGKILL && code != 128+int(sig) {
			t.Errorf("after %v it ended with %d", sig, code)
		}
		if left, err := filepath.Glob(temp + "/*"); sig != syscall.SIGKILL && (err != nil || len(left) != 0) {
			t.Errorf("after %v it left %v behind (%v)", sig, left, err)
		}
		testwait.Until(t, bound, "the server and the workers have ended", func() bool {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			ps, psErr := exec.Command("ps", "-e", "-ww", "-o", "args=").Output()
			if psErr != nil {
				t.Fatal(psErr)
			}
			return err != nil && !strings.Contains(string(ps), temp)
		})
	}
}
