package demo

import (
	"errors"
	"testing"
)

// The driver tells of every way in which it tried to connect: TLS and none are two.
func TestOneLineOfTheDriver(t *testing.T) {
	err := oneLine(errors.New("failed to connect:\n\ta:1: refused\n\ta:1: refused\n\tb:1: refused"))
	if got, expected := err.Error(), "failed to connect: a:1: refused b:1: refused"; got != expected {
		t.Errorf("it reads %q, expected %q", got, expected)
	}
}
