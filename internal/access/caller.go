package access

import (
	"context"
	"crypto/x509"
	"sync/atomic"
	"time"
)

// Caller is somebody who was let in.
type Caller struct {
	gate *Gate
	// Remote is the address that the caller comes from.
	Remote string

	digest Digest
	names  []string
	chain  []*x509.Certificate
	at     time.Time
	now    atomic.Pointer[standing]
}

// standing is what a caller is under one policy.
type standing struct {
	policy   *Policy
	identity *Identity
}

// Left is how long the caller's certificate, and those above it, were good for
// when it was let in; false: it came by something else.
func (c *Caller) Left() (time.Duration, bool) {
	if len(c.chain) == 0 {
		return 0, false
	}
	left := c.chain[0].NotAfter.Sub(c.at)
	for _, above := range c.chain[1:] {
		left = min(left, above.NotAfter.Sub(c.at))
	}
	return max(left, 0), true
}

// Identity is who the caller is under the present policy; nil: nobody any more.
// While the policy stays it costs two loads.
func (c *Caller) Identity() *Identity {
	p, s := c.gate.policy.Load(), c.now.Load()
	if s.policy == p {
		return s.identity
	}
	s = &standing{policy: p, identity: anyone}
	if p != nil {
		s.identity = c.resolve(p)
	}
	c.now.Store(s)
	return s.identity
}

func (c *Caller) resolve(p *Policy) *Identity {
	if len(c.chain) > 0 {
		return p.byCertificate(c.names)
	}
	return p.byCredential(c.digest)
}

type (
	callerKey struct{}
	proofKey  struct{}
)

// With returns a context that carries the caller.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Present returns a context that carries the caller's proof.
func Present(ctx context.Context, p Proof) context.Context {
	return context.WithValue(ctx, proofKey{}, p)
}

// From returns the caller: the one in the context, or the one that the gate admits on
// what the context presents; on nothing, where it presents nothing.
func (g *Gate) From(ctx context.Context) (*Caller, error) {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return c, nil
	}
	p, _ := ctx.Value(proofKey{}).(Proof)
	return g.Admit(p)
}

// Remote is where what the context presents comes from; empty: unknown.
func Remote(ctx context.Context) string {
	p, _ := ctx.Value(proofKey{}).(Proof)
	return p.Remote
}
