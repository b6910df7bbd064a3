package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testcert"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The configuration of the unit and the image starts a server, with the identities
// that docs/operate.md has an operator make.
func TestDeployedConfiguration(t *testing.T) {
	dir := t.TempDir()
	made := regexp.MustCompile(`(?m)^pawl (auth new .*)$`).FindAllStringSubmatch(deployed(t, "docs/operate.md"), -1)
	if len(made) != 3 {
		t.Fatalf("docs/operate.md makes %q", made)
	}
	for _, m := range made {
		args := strings.Fields(m[1])
		for i, arg := range args {
			switch {
			case arg == "''":
				args[i] = ""
			case strings.HasPrefix(arg, "~/"), arg == "auth.yaml":
				args[i] = filepath.Join(dir, filepath.Base(arg))
			}
		}
		want(t, 0, args...)
	}
	ca := testcert.New(t, dir, "ca")
	cert, key := ca.Issue("server", nil)
	there := map[string]string{
		"/etc/pawl/server.pem": cert, "/etc/pawl/server.key": key, "/etc/pawl/auth.yaml": filepath.Join(dir, "auth.yaml"),
		"/var/lib/pawl": filepath.Join(dir, "lib"), "/var/log/pawl": dir,
	}
	config := deployed(t, "deploy/pawl.yaml")
	for path, mine := range there {
		if strings.Count(config, path) != 1 {
			t.Fatalf("deploy/pawl.yaml names %s %d times", path, strings.Count(config, path))
		}
		config = strings.Replace(config, path, mine, 1)
	}
	f := &fortress{dir: dir, ca: ca.File, auth: filepath.Join(dir, "auth.yaml"), audit: filepath.Join(dir, "audit.log")}
	f.served = serve(t, "--config", writeFile(t, "pawl.yaml", config))
	f.must(0, "billing", "acquire", "billing/7", "--ttl", "1m")
	f.must(exit.CodeDenied, "billing", "acquire", "other/7")
	contains(t, f.must(0, "ops", "status").stdout, "locks.example:", "leases         1", "TLS, callers prove who they are")
	f.must(0, "metrics", "ls")
	f.must(exit.CodeDenied, "metrics", "acquire", "billing/8")
	f.audited(`"names":["billing/7"]`, `"outcome":"granted"`)
	if _, err := os.Stat(filepath.Join(dir, "lib", "node")); err != nil {
		t.Error(err)
	}
}

// What the unit and the image start is the same, and the codes that they go by are
// those of the program.
func TestDeployedUnitAndImage(t *testing.T) {
	unit, image := deployed(t, "deploy/pawl.service"), deployed(t, "deploy/Containerfile")
	said := func(in, of string) string {
		m := regexp.MustCompile(`(?m)^` + of + `(.*)$`).FindStringSubmatch(in)
		if m == nil {
			t.Fatalf("there is no %s", of)
		}
		return m[1]
	}
	started := strings.Fields(said(unit, "ExecStart=/usr/local/bin/pawl "))
	if list := `["` + strings.Join(started, `", "`) + `"]`; said(image, "CMD ") != list {
		t.Errorf("the unit starts %q, the image %s", started, said(image, "CMD "))
	}
	if codes := said(unit, "RestartPreventExitStatus="); codes != fmt.Sprintf("%d %d", exit.CodeUsage, exit.CodeData) {
		t.Errorf("the unit gives up at %s", codes)
	}
	if said(unit, "Type=") != "notify" {
		t.Error("the server says when it answers, and the unit does not wait for it")
	}
	// Two fronts of 65,536 connections each, a third of what there may be.
	if n, err := strconv.Atoi(said(unit, "LimitNOFILE=")); err != nil || n < 3*65_536 {
		t.Errorf("the unit allows %d files: %v", n, err)
	}
	for _, name := range []string{client.ServersEnv, client.CAEnv + client.FileSuffix, client.CredentialEnv + client.FileSuffix} {
		if !strings.Contains(image, " "+name+"=") {
			t.Errorf("the image does not tell `pawl status` its %s", name)
		}
	}
}

// The alert rules are YAML of the form that Prometheus reads; internal/tidy looks
// at what they ask for.
func TestDeployedAlerts(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	dec := yaml.NewDecoder(strings.NewReader(deployed(t, "deploy/pawl-alerts.yml")))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || seen[r.Alert] || r.Expr == "" || r.For == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s: %+v", g.Name, r)
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s is of severity %q", r.Alert, s)
			}
			seen[r.Alert] = true
		}
	}
	if len(seen) == 0 {
		t.Error("there are no alerts")
	}
}
