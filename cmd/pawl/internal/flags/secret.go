package flags

import (
	"fmt"
	"strings"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/infile"
)

// secretMax bounds a file that holds a secret, in bytes.
const secretMax = 64 << 10

// ReadSecret reads a file that holds one secret and nothing else, but for the end
// of the line.
func ReadSecret(path string) (string, error) {
	raw, _, err := infile.Read(path, secretMax, clock.System().Wall())
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}
