package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pawlproject/pawl/cmd/pawl/internal/doctor"
	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/internal/testwait"
)

// freePort is an address that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// examined waits until pawl doctor finds three members that all answer, and returns what
// else it finds.
func examined(t *testing.T, servers []*served, args ...string) (others []string) {
	t.Helper()
	testwait.Until(t, bound, "three servers are one cell", func() bool {
		var links []string
		for _, s := range servers {
			s.mu.Lock()
			links = append(links, s.link)
			s.mu.Unlock()
			select {
			case <-s.ended:
				t.Fatalf("a server ended:\n%s", s.said())
			default:
			}
		}
		if slices.Contains(links, "") {
			return false
		}
		r := pawlCLI(t, append([]string{"doctor", "--json", "--servers", strings.Join(links, ",")}, args...)...)
		var body doctorBody
		if err := json.Unmarshal([]byte(r.stdout), &body); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		others = nil
		well := false
		for _, f := range body.Findings {
			switch {
			case f.Level != doctor.OK:
				others = append(others, f.Check)
			case f.Check == "quorum":
				well = strings.HasPrefix(f.Text, "3 of 3 members answer")
			}
		}
		wait := slices.ContainsFunc(others, func(check string) bool {
			return slices.Contains([]string{"standbys", "active", "leader", "members", "reach"}, check)
		})
		return well && !wait
	})
	return slices.DeleteFunc(slices.Compact(others), func(check string) bool { return check == "folder" })
}

// The commands of docs/quorum.md that try three servers on one machine do what they say:
// a job and the next grant survive a killed server. What differs is where they listen.
func TestThreeServersAreTried(t *testing.T) {
	m := regexp.MustCompile("(?s)<!-- test: three -->\n```sh\n(.*?)```").FindStringSubmatch(deployed(t, "docs/quorum.md"))
	if m == nil {
		t.Fatal("docs/quorum.md does not say how to try it")
	}
	script := strings.ReplaceAll(m[1], "127.0.0.1:7${1}20", `"$(eval echo \$LINK$1)"`)
	var links []string
	for i := range 3 {
		link, peer := freePort(t), freePort(t)
		links = append(links, fmt.Sprintf("LINK%d=%s", i+1, link))
		script = strings.ReplaceAll(script, fmt.Sprintf("127.0.0.1:7%d20", i+1), link)
		script = strings.ReplaceAll(script, fmt.Sprintf("127.0.0.1:7%d22", i+1), peer)
	}
	if strings.Contains(script, "127.0.0.1:7${") || strings.Count(script, "serve 1") != 3 {
		t.Fatalf("the script is\n%s", script)
	}
	cmd := command(t)
	if err := os.Symlink(cmd.Path, filepath.Join(cmd.Dir, "pawl")); err != nil {
		t.Fatal(err)
	}
	end := "\nuntil pawl doctor; do sleep 1; done\npawl ls nightly\nkill $(cat try/*.pid)\nwait\n"
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", strings.Replace(script, "sleep 30", "sleep 5", 1) + end}
	cmd.Env = append(cmd.Env, append(links, "PATH="+cmd.Dir+":"+os.Getenv("PATH"))...)
	// A script that hangs is killed with its servers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	r := finish(t, cmd)
	for _, want := range []string{"granted\n", "errors: 0, warnings: 0", "does not answer n2, n3"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if t.Failed() || r.code != 0 {
		t.Errorf("%+v", r)
	}
}

// The command lines of the compose file start three servers that are one cell. What
// differs from a machine with containers is where they listen.
func TestDeployedComposeFile(t *testing.T) {
	var file struct {
		Name     string
		Server   yaml.Node `yaml:"x-server"`
		Peers    string    `yaml:"x-peers"`
		Services map[string]struct {
			Image, Restart  string
			Build           struct{ Context, Dockerfile string }
			StopGracePeriod string `yaml:"stop_grace_period"`
			Ulimits         map[string]int
			Environment     map[string]string
			Command         []string
			Ports, Volumes  []string
		}
		Volumes map[string]any
	}
	dec := yaml.NewDecoder(strings.NewReader(deployed(t, "deploy/compose.yaml")))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	peers := map[string]string{"n1": freePort(t), "n2": freePort(t), "n3": freePort(t)}
	var servers []*served
	for _, name := range []string{"n1", "n2", "n3"} {
		s, there := file.Services[name]
		_, volume := file.Volumes[name]
		if !there || !volume || !slices.Equal(s.Volumes, []string{name + ":/var/lib/pawl"}) || s.Build.Dockerfile != "deploy/Containerfile" || s.Build.Context != ".." {
			t.Fatalf("%s: %+v", name, s)
		}
		args := slices.Clone(s.Command)
		if args[0] != "serve" {
			t.Fatalf("%s starts %q", name, args)
		}
		for i, arg := range args {
			switch arg {
			case "--peers":
				for n, at := range peers {
					args[i+1] = strings.Replace(args[i+1], "http://"+n+":7422", "http://"+at, 1)
				}
				if strings.Contains(args[i+1], ":7422,") {
					t.Errorf("%s is told of %s", name, args[i+1])
				}
			case "--peer-listen":
				args[i+1] = strings.Replace(args[i+1], ":7422", peers[name], 1)
			case "--listen", "--http":
				port := map[string]string{"--listen": "7420", "--http": "7421"}[arg]
				if args[i+1] != ":"+port {
					t.Errorf("%s: %s is %s", name, arg, args[i+1])
				}
				args[i+1] = "127.0.0.1:0"
			case "--advertise", "--advertise-http":
				port := map[string]string{"--advertise": "7420", "--advertise-http": "7421"}[arg]
				_, out, _ := strings.Cut(args[i+1], ":")
				if !slices.Contains(s.Ports, "127.0.0.1:"+out+":"+port) {
					t.Errorf("%s: %s is %s, and the ports are %q", name, arg, args[i+1], s.Ports)
				}
				args[i+1] = "localhost"
			case "--data":
				args[i+1] = filepath.Join(t.TempDir(), name)
			}
		}
		servers = append(servers, launch(t, args[1:]...))
	}
	if others := examined(t, servers); !slices.Equal(others, []string{"security"}) {
		t.Errorf("doctor finds %q; the file says that it warns of --insecure alone", others)
	}
}

// The drop-in with its environment starts three servers that are one cell, with TLS and
// identities, on the configuration of the unit.
func TestDeployedQuorum(t *testing.T) {
	dir := t.TempDir()
	started := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/pawl serve (.*)$`).FindStringSubmatch(deployed(t, "deploy/quorum.conf"))
	if started == nil || !strings.Contains(deployed(t, "deploy/quorum.conf"), "\nExecStart=\n") {
		t.Fatal("the drop-in does not start the server anew")
	}
	env := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z]+)=(.*)$`).FindAllStringSubmatch(deployed(t, "deploy/quorum.env"), -1) {
		env[m[1]] = m[2]
	}
	links, peers := testcert.New(t, dir, "ca"), testcert.New(t, dir, "peers")
	cert, key := links.Issue("server", nil)
	auth := filepath.Join(dir, "auth.yaml")
	want(t, 0, "auth", "new", "ops", "--prefix", "", "--allow", "admin", "--out", filepath.Join(dir, "ops.credential"), "--file", auth)
	var at []string
	for _, host := range []string{"a.example:7422", "b.example:7422", "c.example:7422"} {
		own := freePort(t)
		if strings.Count(env["PEERS"], "https://"+host) != 1 {
			t.Fatalf("PEERS is %s", env["PEERS"])
		}
		env["PEERS"] = strings.Replace(env["PEERS"], host, own, 1)
		at = append(at, own)
	}
	if env["NODE"] != "n1" || env["ADVERTISE"] != "a.example" {
		t.Fatalf("%v", env)
	}
	var servers []*served
	for i, own := range at {
		name := fmt.Sprintf("n%d", i+1)
		peerCert, peerKey := peers.Issue(name, nil)
		config := deployed(t, "deploy/pawl.yaml")
		for path, mine := range map[string]string{
			"/etc/pawl/server.pem": cert, "/etc/pawl/server.key": key, "/etc/pawl/auth.yaml": auth,
			"/var/lib/pawl": filepath.Join(dir, name), "/var/log/pawl": t.TempDir(),
		} {
			config = strings.Replace(config, path, mine, 1)
		}
		words := strings.NewReplacer("${NODE}", name, "${PEERS}", env["PEERS"], "${ADVERTISE}", "localhost",
			":7422", own, "/etc/pawl/peer.pem", peerCert, "/etc/pawl/peer.key", peerKey, "/etc/pawl/peers.pem", peers.File,
			"/etc/pawl/pawl.yaml", writeFile(t, "pawl.yaml", config)).Replace(started[1])
		servers = append(servers, launch(t, strings.Fields(words)...))
	}
	others := examined(t, servers, "--ca", links.File, "--credential-file", filepath.Join(dir, "ops.credential"))
	if !slices.Equal(others, []string{"certificates"}) { // those of a test end within the hour
		t.Errorf("doctor finds %q", others)
	}
}
