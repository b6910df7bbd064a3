package main

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testwait"
)

type outcome struct {
	Lost    string
	Refused bool   `json:"late_write_refused"`
	First   string `json:"token_a"`
	Second  string `json:"token_b"`
	Ledger  []ledgerEntry
}

type ledgerEntry struct {
	Who, Balance string
	Token        string `json:"fencing_token"`
}

// C33: the late write of a holder that was held up is refused by the resource. The lease
// of a holder that rides outlives its server's death.
func TestDemoZombie(t *testing.T) {
	for _, resource := range []string{"sqlite", "s3"} {
		t.Run(resource, func(t *testing.T) { demoZombie(t, resource) })
	}
}

func demoZombie(t *testing.T, resource string) {
	temp := t.TempDir()
	cmd := command(t, "demo", "zombie", "--json", "--resource", resource)
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
		Outage             struct {
			Lost          string
			Token         string `json:"token_a"`
			Rode, Resumed bool
			Alone         bool `json:"wrote_while_down"`
			Ledger        []ledgerEntry
		}
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
	a := v.Outage.Token
	ridden := []ledgerEntry{{"opening", "100", ""}, {"A", "110", a}, {"A", "120", a}, {"A", "130", a}}
	if o := v.Outage; o.Lost != "0" || !o.Rode || !o.Alone || !o.Resumed || o.Token <= v.Guarded.Second || !slices.Equal(o.Ledger, ridden) {
		t.Errorf("in the outage: %+v", o)
	}
	// Where the store has conditions of its own, it is told why they did not help.
	if has := strings.Contains(r.stdout, "its If-Match held, because it read the ETag anew"); has != (resource == "s3") {
		t.Errorf("the late write is told wrongly:\n%s", r.stdout)
	}
	// What is told of the outage comes in its order.
	told := []string{"acquired", "wrote", "killed", "rides", "wrote", "started", "resumed", "wrote", "released"}
	for _, line := range lines[1 : len(lines)-1] {
		if m := read[struct{ Act, What string }](t, line); len(told) != 0 && m.Act == "outage" && m.What == told[0] {
			told = told[1:]
		}
	}
	if len(told) != 0 {
		t.Errorf("the outage is told without %v:\n%s", told, r.stdout)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("it left %v behind (%v)", left, err)
	}
}

func TestDemoOutput(t *testing.T) {
	r := want(t, 0, "demo", "zombie")
	contains(t, r.stdout, "SIGSTOP", "SIGCONT", "LOST: 20. The balance should be 130.", "REFUSED by the ledger", "Nothing is lost.",
		"3. The service is gone", "SIGKILL", "rides on", "may then happen twice")
	if strings.Contains(r.stdout, "\x1b") {
		t.Error("there is colour where there is no terminal")
	}
}

// After an interrupt nothing of the demo is left; after a kill there remain
// its folder, and no process.
func TestDemoInterrupted(t *testing.T) {
	for _, tc := range []struct {
		ttl, who, what string
		sig            syscall.Signal
	}{
		{"10s", "B", "asks", syscall.SIGINT}, // A is stopped, B waits
		{"10s", "B", "asks", syscall.SIGTERM},
		{"10s", "B", "asks", syscall.SIGKILL},
		{"2s", "server", "killed", syscall.SIGINT}, // A waits for it to answer
	} {
		sig, temp := tc.sig, t.TempDir()
		cmd := command(t, "demo", "zombie", "--json", "--ttl", tc.ttl)
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
			if m.Who == tc.who && m.What == tc.what {
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

// C33: the same with a service over HTTP that checks nothing, and our proxy before it.
func TestDemoZombieHTTP(t *testing.T) {
	temp := t.TempDir()
	cmd := command(t, "demo", "zombie", "--json", "--resource", "http", "--ttl", "1s")
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	r := finish(t, cmd)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if r.code != 0 || r.stderr != "" || !strings.Contains(r.stdout, `"guard":"pawl guard proxy"`) || !strings.Contains(lines[len(lines)-1], `"ok":true`) {
		t.Fatalf("it ended with %+v", r)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("it left %v (%v)", left, err)
	}
	want(t, exit.CodeUsage, "demo", "zombie", "--resource", "http", "--postgres", "host=x dbname=y")
	want(t, exit.CodeUsage, "demo", "zombie", "--resource", "ftp")
}
