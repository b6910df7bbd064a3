package main

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testcert"
)

func TestVersionAsAFlag(t *testing.T) {
	flag, verb := want(t, 0, "--version"), want(t, 0, "version")
	if flag.stdout != verb.stdout || !strings.HasPrefix(flag.stdout, "pawl "+version) {
		t.Errorf("--version prints %q, version %q", flag.stdout, verb.stdout)
	}
}

func TestUnknownCommands(t *testing.T) {
	for word, meant := range map[string]string{
		"lock": "did you mean acquire?", "unlock": "did you mean release?", "aquire": "did you mean acquire?",
		"relase": "did you mean release?", "list": "ls", "statsu": "status",
	} {
		r := want(t, exit.CodeUsage, word, "a")
		contains(t, r.stderr, `pawl: unknown command "`+word+`"; did you mean `, meant)
	}
	if r := want(t, exit.CodeUsage, "incomprehensible"); strings.Contains(r.stderr, "did you mean") {
		t.Errorf("it says %q", r.stderr)
	}
	contains(t, want(t, exit.CodeUsage, "serve", "extra").stderr, `serve takes no arguments; "extra" is one`)
	contains(t, want(t, exit.CodeUsage, "status", "extra").stderr, `status takes no arguments; "extra" is one`)
	contains(t, want(t, exit.CodeUsage, "demo", "zombi").stderr, "did you mean zombie?")
}

// What people call commands and flags that are called otherwise here is told.
func TestOtherWordsAreUnderstood(t *testing.T) {
	for _, tc := range [][2]string{
		{"member ls", `unknown command "ls"; did you mean list?`},
		{"member rm n3", `unknown command "rm"; did you mean remove?`},
		{"run --timeout 3s a -- true", "unknown flag: --timeout; expected --wait, how long to wait for the turn, or --max-hold"},
		{"status --server 127.0.0.1:1", "unknown flag: --server; expected --servers"},
		{"status --serverss 127.0.0.1:1", "unknown flag: --serverss; did you mean --servers?"},
		{"acquire a --claim sqlite:x", `unknown flag: --claim; expected --claims, if you claim a guard by yourself before you act (pawl guard claim), or "pawl run --claim DSN"`},
		{"drill --for 15s", "unknown flag: --for; expected pawl drill outage --for"},
		{"drill outage --timeout 15s", "unknown flag: --timeout; expected --for"},
	} {
		contains(t, want(t, exit.CodeUsage, strings.Fields(tc[0])...).stderr, tc[1])
	}
	// A hint names no flag that the command does not have.
	if r := want(t, exit.CodeUsage, "version", "--server", "x"); strings.Contains(r.stderr, "--servers") {
		t.Errorf("it says %s", r.stderr)
	}
	// Every hint is for a command that there is, and for a flag that it does not have.
	root := newRoot()
	find := func(path string) *cobra.Command {
		c, _, err := root.Find(strings.Fields(path))
		if _, found, _ := strings.Cut(c.CommandPath(), " "); err != nil || found != path {
			t.Fatalf("there is no command %q", path)
		}
		return c
	}
	for path := range otherWords {
		find(path)
	}
	for path, meant := range otherFlags {
		for flag, instead := range meant {
			c := find(path)
			if c.Flags().Lookup(flag) != nil {
				t.Errorf("%q has --%s", path, flag)
			}
			if c.Annotations["meant by --"+flag] != instead && path != "" {
				t.Errorf("%q has no flag such as the hint for --%s names: %s", path, flag, instead)
			}
		}
	}
}

// A duration without its unit is told of in the same words by every flag of every command.
func TestDurationsWithoutAUnit(t *testing.T) {
	n := 0
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "duration" {
				return
			}
			n++
			if err := f.Value.Set("15"); err == nil || err.Error() != "expected a duration such as 15s" {
				t.Errorf("%s --%s: %v", cmd.CommandPath(), f.Name, err)
			}
		})
		for _, c := range cmd.Commands() {
			each(c)
		}
	}
	if each(newRoot()); n < 10 {
		t.Errorf("there are %d flags of durations", n)
	}
	contains(t, want(t, exit.CodeUsage, "drill", "outage", "--for", "15").stderr, `invalid argument "15" for "--for" flag: expected a duration such as 15s`)
}

// A port in use is told with its flag, and who has it.
func TestServeOnAddressesInUse(t *testing.T) {
	s := serve(t, "--store", "memory")
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	for _, tc := range []struct{ link, http, says string }{
		{s.link, "off", "--listen " + s.link + ": the address is in use, a pawl server answers there already"},
		{"127.0.0.1:0", s.http, "--http " + s.http + ": the address is in use, a pawl server answers there already"},
		{"127.0.0.1:0", foreign.Addr().String(), "--http " + foreign.Addr().String() + ": the address is in use, another program listens there"},
	} {
		r := want(t, exit.CodeUnavailable, "serve", "--store", "memory", "--listen", tc.link, "--http", tc.http)
		contains(t, r.stderr, tc.says, "--listen, --http and --data")
	}
	for _, port := range []string{"65536", "http", "-1"} {
		r := want(t, exit.CodeUsage, "serve", "--store", "memory", "--listen", "127.0.0.1:"+port)
		contains(t, r.stderr, "--listen", "port from 0 to 65535")
	}
	contains(t, want(t, exit.CodeUsage, "serve", "--listen", s.link, "--http", s.link).stderr, "--listen and --http are both")
}

func TestServeOnUnusableFolder(t *testing.T) {
	for _, data := range []string{filepath.Join(writeFile(t, "file", ""), "data"), writeFile(t, "file", ""), "/proc/pawl-data"} {
		r := want(t, exit.CodeUnavailable, "serve", "--listen", "127.0.0.1:0", "--http", "off", "--data", data)
		contains(t, r.stderr, "pawl serve: the data folder cannot be used: ", data, "; --data names another folder")
	}
}

// The addresses of --advertise are those that status shows and that clients are sent
// to, and HTTP requests for such a host are accepted.
func TestServeAdvertises(t *testing.T) {
	s := serve(t, "--store", "memory", "--advertise", "locks.example:9", "--advertise-http", "web.example")
	_, port, _ := net.SplitHostPort(s.http)
	shown := read[struct {
		Link string `json:"active_link"`
		HTTP string `json:"active_http"`
	}](t, s.want(0, "status", "--json").stdout)
	if shown.Link != "locks.example:9" || shown.HTTP != "web.example:"+port {
		t.Errorf("advertised is %+v", shown)
	}
	for host, code := range map[string]int{"locks.example": 200, "web.example:" + port: 200, "evil.example": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.http+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != code {
			t.Errorf("for the host %s it answers %d", host, answer.StatusCode)
		}
	}
	contains(t, want(t, exit.CodeUsage, "serve", "--advertise", "https://locks.example").stderr, "--advertise", "locks.example:7420")
	contains(t, want(t, exit.CodeUsage, "serve", "--http", "off", "--advertise-http", "locks.example").stderr, "nothing listens there")
}

// The first request to a server with TLS and identities says which flag
// is missing.
func TestMissingFlagsAreNamed(t *testing.T) {
	f := newFortress(t)
	contains(t, f.must(exit.CodeDenied, "", "ls").stderr, "no credential was presented", "(--credential-file, or --cert and --key)")
	contains(t, want(t, exit.CodeUnavailable, "ls", "--servers", f.link).stderr, "perhaps the server speaks TLS; are --servers and --ca right?")
	stranger := testcert.New(t, t.TempDir(), "ca").File // of the same name as the server's
	r := want(t, exit.CodeUnavailable, "ls", "--servers", f.link, "--ca", stranger)
	contains(t, r.stderr, "its certificate is of an unknown authority (x509: ", "; are --servers and --ca right?")
	if strings.Contains(r.stderr, `\"`) || strings.Contains(r.stderr, "is \"pawl serve\" running") {
		t.Errorf("it says %s", r.stderr)
	}
}
