package etcdtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Member is one etcd process, on addresses and a folder that it keeps.
type Member struct {
	Name string
	// Dir holds the data, in "data", and the log.
	Dir string

	cluster      *Cluster
	client, peer string
	cmd          *exec.Cmd
	ended        chan struct{}
	stopped      bool
}

// Address that clients reach it at, without a scheme.
func (m *Member) Address() string { return m.client }

// Endpoint is the address with its scheme.
func (m *Member) Endpoint() string {
	if m.cluster.opts.Identity != nil {
		return "https://" + m.client
	}
	return "http://" + m.client
}

func (m *Member) args() []string {
	var peers []string
	for _, other := range m.cluster.Members {
		peers = append(peers, other.Name+"=http://"+other.peer)
	}
	args := []string{
		"--name", m.Name, "--data-dir", filepath.Join(m.Dir, "data"), "--log-level", "warn",
		"--listen-client-urls", m.Endpoint(), "--advertise-client-urls", m.Endpoint(),
		"--listen-peer-urls", "http://" + m.peer, "--initial-advertise-peer-urls", "http://" + m.peer,
		"--initial-cluster", strings.Join(peers, ","), "--initial-cluster-token", m.cluster.dir,
		"--unsafe-no-fsync=true", // a SIGKILL loses nothing
	}
	if id := m.cluster.opts.Identity; id != nil {
		args = append(args, "--cert-file", id.ServerCert, "--key-file", id.ServerKey, "--trusted-ca-file", id.CA, "--client-cert-auth")
	}
	return append(args, m.cluster.opts.Args...)
}

// Start runs it; it goes on with what is in its folder.
func (m *Member) Start() error {
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(m.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(m.cluster.binary, m.args()...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = diesWithParent()
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// What dies with its parent dies with the thread that started it.
		runtime.LockOSThread()
		defer close(ended)
		defer log.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	m.cmd, m.ended, m.stopped = cmd, ended, false
	return nil
}

func (m *Member) over() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

func (m *Member) signal(sig syscall.Signal) {
	if m.cmd != nil {
		_ = m.cmd.Process.Signal(sig) // it may have ended
	}
}

// Kill ends it at once and waits for that.
func (m *Member) Kill() {
	if m.cmd != nil {
		m.signal(syscall.SIGKILL)
		<-m.ended
	}
}

// Stop halts it and waits for that: its connections stay and nothing is answered.
func (m *Member) Stop() {
	m.signal(syscall.SIGSTOP)
	if m.cmd != nil && !m.stopped {
		halts(m.cmd.Process.Pid)
	}
	m.stopped = true
}

// Resume has a halted one go on.
func (m *Member) Resume() {
	m.signal(syscall.SIGCONT)
	m.stopped = false
}

// tail is the end of its log.
func (m *Member) tail() string {
	raw, err := os.ReadFile(filepath.Join(m.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-2000):])
}
