package etcdtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

var (
	building sync.Mutex
	// root of the source tree.
	root = func() string {
		_, file, _, _ := runtime.Caller(0)
		return filepath.Join(filepath.Dir(file), "..", "..", "..", "..", "..")
	}()
)

// binary is the path of etcd's program of a version such as "3.6", at the patch
// that tools pins. `make pinned` builds it; where it is missing it is built now.
func binary(version string) (string, error) {
	building.Lock()
	defer building.Unlock()
	path := filepath.Join(root, ".bin", "etcd-"+version)
	if _, err := os.Stat(path); err == nil || !errors.Is(err, os.ErrNotExist) {
		return path, err
	}
	module := filepath.Join(root, "tools", "etcd"+strings.ReplaceAll(version, ".", ""))
	if _, err := os.Stat(module); err != nil {
		return "", fmt.Errorf("no module pins etcd %s: %w", version, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	// Another process may do the same: the last one renames an identical file.
	fresh, err := os.MkdirTemp(filepath.Dir(path), "etcd-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	built := filepath.Join(fresh, "etcd")
	cmd := exec.Command("go", "build", "-o", built, "go.etcd.io/etcd/server/v3")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build etcd %s: %w\n%s", version, err, out)
	}
	return path, os.Rename(built, path)
}
