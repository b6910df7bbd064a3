//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "torture needs Linux: it works in namespaces of its own")
	os.Exit(1)
}
