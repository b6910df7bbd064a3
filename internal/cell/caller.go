package cell

import "context"

type callerKey struct{}

// As returns a context under which requests are those of an identity: the sessions,
// leases and request ids that it creates belong to it, and its requests count towards
// its limits. It cannot see sessions and leases of another identity. Without As the
// caller is the identity without a name.
func As(ctx context.Context, identity string) context.Context {
	if identity == "" {
		return ctx
	}
	return context.WithValue(ctx, callerKey{}, identity)
}

func callerOf(ctx context.Context) string {
	identity, _ := ctx.Value(callerKey{}).(string)
	return identity
}
