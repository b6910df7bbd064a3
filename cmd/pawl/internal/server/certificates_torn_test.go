package server

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlproject/pawl/internal/testcert"
)

// A list of authorities that is half written, or damaged, or no list, does not come
// into force: clients of the missing authorities would be disconnected.
func TestPartialAuthoritiesFileIsIgnored(t *testing.T) {
	dir := t.TempDir()
	ca, other := testcert.New(t, dir, "ca"), testcert.New(t, dir, "other")
	cert, key := ca.Issue("server", nil)
	list := func(of ...string) (all []byte) {
		for _, path := range of {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, raw...)
		}
		return all
	}
	both := list(ca.File, other.File)
	path := filepath.Join(dir, "authorities.pem")
	put := func(raw []byte) {
		t.Helper()
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(both)
	s := newSecured(t, Files{Cert: cert, Key: key, ClientCA: path})
	was := s.now.Load()
	one := len(list(ca.File))
	for what, raw := range map[string][]byte{
		"empty":                             nil,
		"cut in the second certificate":     both[:one+100],
		"cut in the second one's last line": both[:len(both)-5],
		"cut in the second one's first":     both[:one+8],
		"a damaged second one":              append(bytes.Clone(both[:one]), bytes.Replace(both[one:], []byte("\nMII"), []byte("\nAAA"), 1)...),
		"a first one that is no PEM":        bytes.Replace(both, []byte("\nMII"), []byte("\n!!!"), 1),
		"a key among them":                  list(ca.File, key),
	} {
		put(raw)
		if err := s.Reload(); err == nil || s.now.Load() != was {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := s.failed.Load(); n != 7 {
		t.Errorf("%d failures were counted", n)
	}
	put(append([]byte("# ours\n"), both...))
	if err := s.Reload(); err != nil || s.now.Load() == was {
		t.Errorf("a whole list with a remark: %v", err)
	}
}
