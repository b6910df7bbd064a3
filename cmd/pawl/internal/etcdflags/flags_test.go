package etcdflags

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPasswordOfTheStore comes from the file before the environment.
func TestPasswordOfTheStore(t *testing.T) {
	file := secretFile(t, "a", "from a file\n")
	t.Setenv(PasswordEnv, "from the environment")
	if got, err := (&Flags{}).password()(); got != "from the environment" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	t.Setenv(PasswordFileEnv, file)
	if got, err := (&Flags{}).password()(); got != "from a file" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	other := secretFile(t, "b", "from a flag\r\n")
	if got, err := (&Flags{passwordFile: other}).password()(); got != "from a flag" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// secretFile writes a file with a text.
func secretFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
