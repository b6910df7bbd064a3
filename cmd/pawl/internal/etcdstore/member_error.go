package etcdstore

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/internal/dialerr"
)

// memberError is a member's error, or its silence, worded for an operator.
// errors.Is and errors.As see gRPC's error.
type memberError struct {
	words string
	err   error
}

func (t *memberError) Error() string { return t.words }

func (t *memberError) Unwrap() error { return t.err }

// describeError names the member and leaves gRPC's wrapping out.
func describeError(address string, err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	words := "etcd at " + address + ": " + st.Message()
	if none := dialerr.Of(address, err); none != nil && none.Insecure {
		words = noTLS(address, none.Why)
	} else if none != nil && !none.Other {
		words = "no etcd answers at " + address + ": " + none.Why
	} else if st.Code() == codes.DeadlineExceeded {
		words = "no answer in time from the etcd at " + address
	}
	return &memberError{words, err}
}

func noTLS(address, why string) string { return "no TLS with the etcd at " + address + ": " + why }
