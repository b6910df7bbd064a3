package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"github.com/pawlproject/pawl/internal/testwait"
)

// hostile is a text that acts on the terminal that prints it unescaped: it ends lines, erases
// screens, in seven bits and in eight, sets titles, turns the order of reading,
// looks like another column, or like a line of a log.
const hostile = "x\r\nlevel=ERROR msg=forged\n{\"verb\":\"break\"}\x1b[2J\x1b]0;owned\x07\u009b2J\u202e\u2028\u00a0\x7f<script>"

// obeyed finds what a terminal would obey in what was printed.
func obeyed(printed string) string {
	for line := range strings.Lines(printed) {
		for _, r := range strings.TrimSuffix(line, "\n") {
			if !unicode.IsGraphic(r) && r != '\t' {
				return line
			}
		}
	}
	return ""
}

// What somebody who may hold a name chooses for its texts does nothing to the
// terminal, the log or the audit log of those who look.
func TestTextsOfOthersActOnNobody(t *testing.T) {
	f := newFortress(t)
	label, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	value := base64.StdEncoding.EncodeToString([]byte(hostile))
	code, header, body := f.ask("a", http.MethodPost, "/v1/leases", `{"name":"a/1","ttl":"1h","label":`+string(label)+`,"value":"`+value+`"}`)
	if code != http.StatusOK || header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(header.Get("Content-Type"), "application/json") {
		t.Fatalf("%d %v %s", code, header, body)
	}
	var lease struct {
		FencingToken string `json:"fencing_token"`
	}
	if err := json.Unmarshal([]byte(body), &lease); err != nil {
		t.Fatal(err)
	}
	waits := f.command("run", "a/1", "--label", hostile, "--", "true")
	waits.Env = append(waits.Env, caEnv+"="+f.ca, credentialEnv+fileSuffix+"="+f.credential("a"))
	var said bytes.Buffer
	waits.Stdout, waits.Stderr = &said, &said
	if err := waits.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "somebody waits", func() bool {
		return strings.Contains(f.must(0, "root", "show", "a/1").stdout, "waiter 1")
	})
	var printed strings.Builder
	for _, args := range [][]string{
		{"ls"},
		{"ls", "--json"},
		{"show", "a/1"},
		{"show", "a/1", "--json"},
		{"leader", "a/1"},
		{"acquire", "a/1"},
		{"run", "-n", "a/1", "--", "true"},
		{"status"},
		{hostile},
		{"show", hostile},
		{"run", "--" + hostile},
		{"break", "a/1", "--token", lease.FencingToken, "--reason", hostile},
		{"show", "a/1"},
		{"break", "a/1", "--token", lease.FencingToken, "--reason", hostile, "--now"},
	} {
		r := f.as("root", args...)
		for _, text := range []string{r.stdout, r.stderr} {
			if line := obeyed(text); line != "" {
				t.Errorf("%.60q prints %q", args, line)
			}
			printed.WriteString(text)
		}
		if strings.Contains(strings.ReplaceAll(r.stdout, `"`, ""), "\nlevel=ERROR") {
			t.Errorf("%q prints a line of its own: %q", args, r.stdout)
		}
	}
	if !strings.Contains(printed.String(), "level=ERROR msg=forged") {
		t.Error("the text was never shown")
	}
	if err := waits.Wait(); err != nil {
		t.Errorf("the one that waited: %v\n%s", err, said.String())
	}
	if line := obeyed(said.String()); line != "" {
		t.Errorf("who waited was told %q", line)
	}
	f.audited(`"verb":"break"`, "forged")
	if line := obeyed(f.read(f.audit)); line != "" {
		t.Errorf("the audit log has %q", line)
	}
	for name, text := range map[string]string{"the log": f.said(), "the audit log": f.read(f.audit)} {
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) || strings.HasPrefix(line, `{"verb"`) {
				t.Errorf("%s has the line %q", name, line)
			}
		}
	}
	var log bytes.Buffer
	newLogger(&log, "text", "info").Info("break", "reason", hostile, "name", hostile)
	if line := obeyed(log.String()); line != "" || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the log for people has %q", log.String())
	}
}

// The command under a lease has the files that it would have without pawl, and no
// more: none of the connection, of the credential, or of the watcher.
func TestACommandInheritsNoFiles(t *testing.T) {
	const look = "ls /proc/$$/fd"
	plainly, err := exec.Command("sh", "-c", look).Output()
	if err != nil {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux lists a process' files in /proc")
		}
		t.Fatal(err)
	}
	f := newFortress(t)
	for _, contain := range []string{"processes", "auto"} {
		if r := f.must(0, "a", "run", "a/1", "--contain", contain, "--", "sh", "-c", look); r.stdout != string(plainly) {
			t.Errorf("with %s it has open:\n%s\nwithout pawl:\n%s", contain, r.stdout, plainly)
		}
	}
}
