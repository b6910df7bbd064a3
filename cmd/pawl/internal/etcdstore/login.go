package etcdstore

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// login exchanges a user's name and password for the token that requests carry. A nil
// login does nothing: the cluster knows its client by certificate, or admits everybody.
// No text made here holds password or token.
type login struct {
	user string
	// password is asked for at each exchange, so that it can be changed.
	password func() (string, error)
	// turn guards the fields below.
	turn chan struct{}
	// known says that present is the cluster's token. A cluster without
	// authentication gives an empty one.
	known   bool
	present string
}

func newLogin(user string, password func() (string, error)) *login {
	if user == "" {
		return nil
	}
	return &login{user: user, password: password, turn: make(chan struct{}, 1)}
}

// token returns the present token, or gets one.
func (l *login) token(ctx context.Context, from *member) (string, error) {
	if l == nil {
		return "", nil
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	if l.known {
		return l.present, nil
	}
	password, err := l.password()
	if err != nil {
		// Not wrapped: it is no trouble of the data folder.
		return "", fmt.Errorf("%w: the password of %q: %v", ErrFiles, l.user, err)
	}
	res, err := pb.NewAuthClient(from.conn).Authenticate(ctx, &pb.AuthenticateRequest{Name: l.user, Password: password})
	if errors.Is(etcdError(err), rpctypes.ErrAuthNotEnabled) {
		res, err = &pb.AuthenticateResponse{}, nil
	}
	if err != nil {
		return "", fmt.Errorf("log in to etcd as %q: %w", l.user, describeError(from.address, err))
	}
	l.known, l.present = true, res.GetToken()
	return l.present, nil
}

// stale reports whether a request was refused because of its token, and drops that
// token. Tokens end by time, when members restart, and when a user's rights change.
func (l *login) stale(token string, err error) bool {
	if l == nil {
		return false
	}
	switch known := etcdError(err); {
	case errors.Is(known, rpctypes.ErrInvalidAuthToken), errors.Is(known, rpctypes.ErrAuthOldRevision),
		errors.Is(known, rpctypes.ErrUserEmpty):
	default:
		return false
	}
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if l.present == token {
		l.known, l.present = false, ""
	}
	return true
}
