package main

import (
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bearer"
)

// Clients send every credential that a server takes, up to the longest one: each
// side has the bound to itself, since the SDK does not import the server's.
func TestClientAndServerBoundCredentialsAlike(t *testing.T) {
	for _, c := range []struct {
		length int
		ok     bool
	}{
		{access.CredentialMin, true},
		{access.CredentialMax, true},
		{access.CredentialMax + 1, false},
	} {
		secret := strings.Repeat("x", c.length)
		if err := access.CheckCredential(secret); (err == nil) != c.ok {
			t.Errorf("the server, of %d bytes: %v", c.length, err)
		}
		if err := bearer.Check(secret); (err == nil) != c.ok {
			t.Errorf("the client, of %d bytes: %v", c.length, err)
		}
	}
}
