package endtoend

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo terminal: the end of whoever types, and the other.
func terminal(t *testing.T) (typist, device *os.File) {
	t.Helper()
	typist, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { typist.Close() })
	if err := unix.IoctlSetPointerInt(int(typist.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(int(typist.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	device, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return typist, device
}

// On a terminal a run ends with the codes that it ends with elsewhere, and
// leaves the terminal to the shell that started it, which goes on reading.
func TestRunExitCodesOnATerminal(t *testing.T) {
	s := newServer(t)
	s.up()
	s.want(0, "acquire", "held", "--ttl", "1h")
	file := filepath.Join(t.TempDir(), "not-executable")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pawl := binary(t)
	// Breaks the very lease that it runs under, and waits for the end.
	breaks := fmt.Sprintf(`%s break "$PAWL_NAME" --token "$PAWL_FENCING_TOKEN" --reason test --now >/dev/null; while :; do sleep 1; done`, pawl)
	for _, tc := range []struct {
		code int
		run  string
	}{
		{0, `run a -- true`},
		{3, `run a -- sh -c 'exit 3'`},
		{143, `run a -- sh -c 'kill -TERM $$'`},
		{137, `run a -- sh -c 'kill -KILL $$'`},
		{exitUsage, `run a --nonsense -- true`},
		{exitUnavailable, `run a -n --servers 127.0.0.1:1 -- true`},
		{exitLost, `run a -k 1s -- sh -c '` + breaks + `'`},
		{exitNotAcquired, `run held -n -- true`},
		{9, `run held -n -E 9 -- true`},
		{126, `run a -- ` + file},
		{127, `run a -- no-such-command-here`},
	} {
		typist, device := terminal(t)
		if _, err := io.WriteString(typist, "typed ahead\n"); err != nil {
			t.Fatal(err)
		}
		// A shell without job control: it does not take the terminal back itself.
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		cmd := exec.CommandContext(ctx, "sh", "-c", pawl+` `+tc.run+`; code=$?; read line && echo "code $code, then read $line"`)
		cmd.Env = append(os.Environ(), "PAWL_SERVERS="+s.link)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = device, device, device
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		device.Close()
		var shown bytes.Buffer
		_, _ = io.Copy(&shown, typist) // the last one to close the device ends it with EIO
		_ = cmd.Wait()                 // its words tell
		cancel()
		if want := fmt.Sprintf("code %d, then read typed ahead", tc.code); !strings.Contains(shown.String(), want) {
			t.Errorf("pawl %s: expected %q on the terminal, which shows %q", tc.run, want, shown.String())
		}
	}
}
