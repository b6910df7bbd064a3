//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawlproject/pawl/internal/testport"
	"github.com/pawlproject/pawl/internal/testpostgres"
	"github.com/pawlproject/pawl/internal/testwait"
)

// zookeeperTick is the servers' unit of time; a session lasts two of them at
// least.
const zookeeperTick = 500 * time.Millisecond

// ensemble is a ZooKeeper of one server or several, on the loopback.
type ensemble struct {
	dir     string
	as      testpostgres.Dress
	members []*keeperMember
}

type keeperMember struct {
	of      *ensemble
	dir     string // with the config, and the data in "data"
	address string
	peer    string // empty where there is one member
	*testpostgres.Process
}

// startEnsemble returns when the servers give sessions.
func startEnsemble(members int) (*ensemble, error) {
	var err error
	// Ports are drawn, and somebody may take one before its server does.
	for range 3 {
		var e *ensemble
		if e, err = tryEnsemble(members); err == nil {
			return e, nil
		}
	}
	return nil, err
}

func tryEnsemble(members int) (*ensemble, error) {
	dir, err := os.MkdirTemp("", "zk")
	if err != nil {
		return nil, err
	}
	e := &ensemble{dir: dir}
	if e.as, err = testpostgres.Unprivileged(dir); err == nil {
		err = e.begin(members)
	}
	if err != nil {
		e.stop()
		return nil, fmt.Errorf("ZooKeeper, which scripts/deps installs: %w", err)
	}
	return e, nil
}

func (e *ensemble) begin(members int) error {
	for i := range members {
		m := &keeperMember{of: e, dir: filepath.Join(e.dir, fmt.Sprint(i+1))}
		ports, err := freePorts(3)
		if err != nil {
			return err
		}
		m.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
		if members > 1 {
			m.peer = fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, ports[1], ports[2])
		}
		e.members = append(e.members, m)
	}
	for i, m := range e.members {
		if err := m.writeConfig(i + 1); err != nil {
			return err
		}
	}
	for _, m := range e.members {
		if err := m.start(); err != nil {
			return err
		}
	}
	conn, err := e.connect(30 * time.Second)
	if err == nil {
		conn.Close()
	}
	return err
}

// writeConfig writes what the member reads when it starts.
func (m *keeperMember) writeConfig(id int) error {
	data := filepath.Join(m.dir, "data")
	_, port, err := net.SplitHostPort(m.address)
	if err == nil {
		err = os.MkdirAll(data, 0o777)
	}
	if err != nil {
		return err
	}
	lines := []string{
		fmt.Sprintf("tickTime=%d", zookeeperTick.Milliseconds()), "initLimit=12", "syncLimit=12",
		"dataDir=" + data, "clientPortAddress=127.0.0.1", "clientPort=" + port, "maxSessionTimeout=60000",
	}
	for _, other := range m.of.members {
		lines = append(lines, other.peer)
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(m.dir, "zoo.cfg"), []byte(strings.Join(lines, "\n")+"\n"), 0o644),
		os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, id), 0o644),
	)
	for _, dir := range []string{m.dir, data} {
		err = errors.Join(err, os.Chmod(dir, 0o777)) // the server may run as another user
	}
	return err
}

// zookeeperJars is the class path of a release that was unpacked, or of Debian's
// package, whose jar names what else it needs.
func zookeeperJars() string {
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		return filepath.Join(home, "lib", "*")
	}
	return "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
}

func (m *keeperMember) start() (err error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return err
	}
	m.Process, err = testpostgres.StartProcess(m.of.as, m.dir, "binding to port", "KILL",
		java, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dzookeeper.admin.enableServer=false", "-Dzookeeper.forceSync=no",
		"-Dzookeeper.digest.enabled=false", // of no use here, and setSequence would have to know it
		"-cp", zookeeperJars(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg")
	return err
}

// kill ends the member at once; start goes on with its data.
func (m *keeperMember) kill() {
	if m.Process != nil {
		m.Process.Stop()
		m.Process = nil
	}
}

func (m *keeperMember) data() string { return filepath.Join(m.dir, "data", "version-2") }

func (e *ensemble) addresses() (all []string) {
	for _, m := range e.members {
		all = append(all, m.address)
	}
	return all
}

// What a server that is just starting takes in it may never answer, so nothing is
// waited for long.
const (
	wordWait    = 500 * time.Millisecond
	sessionWait = 5 * time.Second
)

// connect returns when there is a session.
func (e *ensemble) connect(session time.Duration) (*zk.Conn, error) {
	var conn *zk.Conn
	var err error
	up := testwait.Holds(bound, func() bool {
		if slices.ContainsFunc(e.members, func(m *keeperMember) bool { return m.Process != nil && m.mode() == "" }) {
			err = e.ended()
			return err != nil
		}
		if conn, _, err = zk.Connect(e.addresses(), session, zk.WithLogger(silentLogger{})); err != nil {
			return true
		}
		if testwait.Holds(sessionWait, func() bool { return conn.State() == zk.StateHasSession }) {
			return true
		}
		conn.Close()
		return false
	})
	if !up {
		err = errors.New("ZooKeeper gives no session")
	}
	return conn, err
}

// mode is "standalone", "leader" or "follower"; empty when the member serves
// nobody. go-zookeeper's own question reads answers as older servers write them.
func (m *keeperMember) mode() string {
	conn, err := net.DialTimeout("tcp", m.address, wordWait)
	if err != nil {
		return ""
	}
	defer conn.Close()
	late := time.AfterFunc(wordWait, func() { conn.Close() })
	defer late.Stop()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return ""
	}
	said, _ := io.ReadAll(conn) // what was said before an error counts
	_, rest, _ := strings.Cut(string(said), "Mode: ")
	mode, _, _ := strings.Cut(rest, "\n")
	return mode
}

// ended tells of a server that is gone and was not killed.
func (e *ensemble) ended() error {
	for _, m := range e.members {
		if m.Process != nil && over(m.Process) {
			return fmt.Errorf("the server on %s ended", m.address)
		}
	}
	return nil
}

// stop ends the servers and removes their folders.
func (e *ensemble) stop() {
	for _, m := range e.members {
		m.kill()
	}
	os.RemoveAll(e.dir)
}

func over(p *testpostgres.Process) bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// keepers starts an ensemble for a test.
func keepers(t testing.TB, members int) *ensemble {
	t.Helper()
	wholly(t)
	e, err := startEnsemble(members)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	return e
}

// visitor is a connection whose session outlives every pause of this machine.
func (e *ensemble) visitor(t testing.TB) *zk.Conn {
	t.Helper()
	conn, err := e.connect(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func freePorts(n int) (ports []int, err error) {
	for range n {
		address, err := testport.Free()
		if err != nil {
			return nil, err
		}
		ports = append(ports, int(netip.MustParseAddrPort(address).Port()))
	}
	return ports, nil
}

type silentLogger struct{}

func (silentLogger) Printf(string, ...any) {}
