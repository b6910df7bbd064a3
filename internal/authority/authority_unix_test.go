//go:build unix

package authority_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/internal/authority"
	"github.com/pawlproject/pawl/internal/infile"
	"github.com/pawlproject/pawl/internal/testcert"
)

// A pipe, a device or an endless file in the place of a PEM file is an error, and
// leaves in force what was read last.
func TestLoadFromPipeOrDeviceFails(t *testing.T) {
	dir := t.TempDir()
	ca := testcert.New(t, dir, "ca")
	cert, key := ca.Issue("client", nil)
	pipe, huge := filepath.Join(dir, "pipe"), filepath.Join(dir, "huge")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, infile.BytesMax+1); err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Pair(cert, key); err != nil {
		t.Error(err)
	}
	pool, err := authority.Load(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	for path, said := range map[string]string{pipe: "nobody has written", huge: "more than", "/dev/zero": "neither a file"} {
		if _, err := authority.Load(path); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("authorities of %s: %v; %q was expected", path, err, said)
		}
		for _, pair := range [][2]string{{path, key}, {cert, path}} {
			if _, err := authority.Pair(pair[0], pair[1]); err == nil {
				t.Errorf("%q are a pair", pair)
			}
		}
		if err := os.Remove(ca.File); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, ca.File); err != nil {
			t.Fatal(err)
		}
		if authority.Fresh(config) != config {
			t.Errorf("%s is taken for authorities", path)
		}
	}
}
