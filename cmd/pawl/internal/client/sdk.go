package client

import (
	"context"
	"time"

	"github.com/pawlproject/pawl"
)

const (
	// ConnectMax bounds the wait of the SDK for a server.
	ConnectMax = 10 * time.Second
	// PartingMax bounds the release at the end of a command.
	PartingMax = 2 * time.Second
)

// Dial opens a client of the SDK, which speaks to the same servers in the same way.
func (t Target) Dial(ctx context.Context, o pawl.Options) (*pawl.Client, error) {
	o.TLS, o.CredentialFile = t.How.TLS, t.How.credentialFile
	if o.CredentialFile == "" {
		o.Credential = pawl.Credential(t.How.Credential)
	}
	return pawl.Dial(ctx, t.servers, o)
}

// Part closes a client, which releases its lease, within a bound: the server
// may not answer any more.
func Part(c *pawl.Client, within time.Duration) {
	if c == nil {
		return
	}
	late, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	done := make(chan struct{})
	go func() {
		_ = c.Close() // the session ends by itself
		close(done)
	}()
	select {
	case <-done:
	case <-late.Done():
	}
}
