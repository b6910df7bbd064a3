//go:build unix

package bearer

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever stands at the path of a credential, reading it comes to an end.
func TestReadCredentialFromPipeOrDeviceFails(t *testing.T) {
	dir := t.TempDir()
	pipe, good, long := filepath.Join(dir, "pipe"), filepath.Join(dir, "good"), filepath.Join(dir, "long")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	secret := strings.Repeat("s", secretMax)
	for path, text := range map[string]string{good: secret + "\r\n", long: secret + "long"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := Read(good); err != nil || s != secret {
		t.Errorf("%d bytes, %v", len(s), err)
	}
	for _, path := range []string{pipe, long, "/dev/zero", dir} {
		if s, err := Read(path); err == nil || strings.Contains(err.Error(), "sss") {
			t.Errorf("%s: %d bytes, %v", path, len(s), err)
		}
	}
}
