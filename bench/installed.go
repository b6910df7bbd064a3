package main

import (
	"os"
	"os/exec"
	"strings"
)

// lacking says what is not there. What it is needed for is left out, and its
// ratio line says why; it is no error.
type lacking string

func (l lacking) Error() string { return string(l) }

// installed finds a program, or looks whether a file is there.
func installed(what, path string) (string, error) {
	if strings.HasPrefix(path, "/") {
		if _, err := os.Stat(path); err != nil {
			return "", lacking(what + " is not installed")
		}
		return path, nil
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", lacking(what + " is not installed")
	}
	return found, nil
}
