//go:build unix

package supervise

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

var errNoCommand = errors.New("command not found")

// Find looks up command as a shell does: a path with a slash is used as it is;
// otherwise Find searches the folders of PATH in env (its last setting), where an empty
// entry is the present folder. The error is a *StartError.
func Find(command string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		if err := executable(command); err != nil {
			if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) {
				err = errNoCommand
			}
			return "", &StartError{Command: command, Err: err}
		}
		return command, nil
	}
	// One that is there but may not be run is the verdict when no folder has a
	// better one.
	verdict := errNoCommand
	if command != "" {
		for _, dir := range filepath.SplitList(lookup(env, "PATH")) {
			if dir == "" {
				dir = "."
			}
			path := dir + "/" + command
			err := executable(path)
			if err == nil {
				return path, nil
			}
			if _, noFile := os.Stat(path); noFile == nil && errors.Is(err, syscall.EACCES) {
				verdict = err
			}
		}
	}
	return "", &StartError{Command: command, Err: verdict}
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	return unix.Access(path, unix.X_OK)
}

func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// Environ returns inherited with ours set in it. Each name of ours appears once, so
// that a command that reads the first setting of a name and one that reads the last see
// the same.
func Environ(inherited []string, ours ...string) []string {
	names := make(map[string]bool, len(ours))
	for _, setting := range ours {
		name, _, _ := strings.Cut(setting, "=")
		names[name] = true
	}
	env := make([]string, 0, len(inherited)+len(ours))
	for _, setting := range inherited {
		if name, _, _ := strings.Cut(setting, "="); !names[name] {
			env = append(env, setting)
		}
	}
	return append(env, ours...)
}
