package server

import (
	"bytes"
	"os"
	"testing"

	"github.com/pawlproject/pawl/internal/testcert"
)

// Whatever a file of authorities holds, it is understood wholly or not at all.
func FuzzAuthorities(f *testing.F) {
	text, err := os.ReadFile(testcert.New(f, f.TempDir(), "ca").File)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(append(bytes.Clone(text), text[:len(text)/2]...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pool, err := authorities(text)
		if (pool == nil) == (err == nil) {
			t.Errorf("%v, %v", pool, err)
		}
	})
}
