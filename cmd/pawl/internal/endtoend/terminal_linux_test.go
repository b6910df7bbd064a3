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

// terminal opens a pseudo terminal: the user's end, and the program's.
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

// One Ctrl-C ends a loop of a shell whose rounds are runs, as it does with other
// commands: run dies of the signal that its command died of, and a script that the
// terminal did not reach, since the command had it, hears of it.
func TestCtrlCEndsShellLoop(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash: its users are who tripped over it")
	}
	s := newServer(t)
	s.up()
	loop := `for i in 1 2 3; do echo "round <$i>"; ` + binary(t) + ` run a -- sh -c 'echo "u""p"; exec sleep 1000'; done`
	for name, tc := range map[string]struct {
		args  []string
		typed string
	}{
		"script of sh":     {[]string{"sh", "-c", loop + "; echo went on"}, ""},
		"script of bash":   {[]string{"bash", "-c", loop + "; echo went on"}, ""},
		"interactive bash": {[]string{"bash", "--norc", "--noprofile", "-i"}, loop + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			typist, device := terminal(t)
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			cmd := exec.CommandContext(ctx, tc.args[0], tc.args[1:]...)
			cmd.Env = append(os.Environ(), "PAWL_SERVERS="+s.link)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = device, device, device
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			device.Close()
			if _, err := io.WriteString(typist, tc.typed); err != nil {
				t.Fatal(err)
			}
			var shown bytes.Buffer
			pressed := false
			for buf := make([]byte, 4096); ; {
				n, err := typist.Read(buf)
				shown.Write(buf[:n])
				if err != nil {
					break // the last one to close the device ends it
				}
				if !pressed && strings.Contains(shown.String(), "up\r\n") {
					pressed = true
					next := "\x03"
					if tc.typed != "" {
						next += "\nexit 42\n"
					}
					if _, err := io.WriteString(typist, next); err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = cmd.Wait() // its state tells
			code := 128 + int(syscall.SIGINT)
			if tc.typed != "" {
				code = 42
			}
			if got := shellCode(cmd.ProcessState); got != code || !pressed || strings.Contains(shown.String(), "round <2>") || strings.Contains(shown.String(), "went on") {
				t.Errorf("the shell ended by %v; the terminal shows %q", cmd.ProcessState, shown.String())
			}
			if out := s.want(0, "show", "a", "--json").stdout; !strings.Contains(out, `"holders":[]`) {
				t.Errorf("the lease is held: %s", out)
			}
		})
	}
}
