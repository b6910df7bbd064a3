package cell

import "context"

type callerKey struct{}

// As returns a context under which an identity asks: what it opens and acquires is
// its own, request ids are, and whatever is asked counts as its. Sessions and leases
// of another identity are ones that do not exist. Without As the caller is the
// identity without a name, whose everything is where nobody has one.
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
