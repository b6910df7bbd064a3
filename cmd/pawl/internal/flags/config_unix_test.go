//go:build unix

package flags

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// Whatever stands at the path of a configuration file, reading it comes to an end.
func TestConfigurationFileIsBounded(t *testing.T) {
	dir := t.TempDir()
	pipe, huge := filepath.Join(dir, "pipe"), filepath.Join(dir, "huge")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(huge, []byte(strings.Repeat("?\n", configMax/2+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, said := range map[string]string{pipe: "nobody has written", huge: "more than", "/dev/zero": "neither a file"} {
		err := ReadConfig(&cobra.Command{Use: "serve"}, path)
		if err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v; %q was expected", path, err, said)
		}
	}
}
