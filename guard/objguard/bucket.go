package objguard

import (
	"context"
	"errors"
	"io"

	"github.com/pawlproject/pawl/guard"
)

// What a bucket answers beside nil, for errors.Is.
var (
	// ErrPrecondition: the condition did not hold. Nothing took effect.
	ErrPrecondition = errors.New("objguard: the object's version is not the one that was expected")
	// ErrConflict: the store did not decide, because of another request for the
	// same key (S3: 409 ConditionalRequestConflict). It never means "exists already".
	// The same request is to be sent again.
	ErrConflict = errors.New("objguard: the store did not decide between two requests")
	// ErrNotFound: no object has this key.
	ErrNotFound = errors.New("objguard: no such object")
)

// SizeMax is the size of the largest object, in bytes: 5 GiB, the limit of S3 for an
// upload in one request.
const SizeMax = 5 << 30

// Bucket is what objguard needs of an object store. Its methods are called by many
// goroutines and end when ctx does. guard/objguard/buckettest is its contract.
//
// A read sees every write that was answered before the read began, and so does a
// listing. A store that answers reads from a copy that lags is no Bucket.
type Bucket interface {
	// Get opens the object. The caller closes Object.Body. It returns ErrNotFound when
	// there is none.
	Get(ctx context.Context, key string) (Object, error)
	// Put writes the object as a whole, or not at all, if the condition holds at the
	// moment of the write, and returns its new ETag. It sends one request: it never
	// repeats by itself, since the repetition of a write that took effect is refused.
	//
	//   - nil: it took effect.
	//   - ErrPrecondition: the condition did not hold; nothing took effect. A store may
	//     answer ErrNotFound instead where an object with an ETag was expected and
	//     there is none.
	//   - ErrConflict: not decided.
	//   - guard.ErrUnknown: the answer is missing. It may have taken effect, or may
	//     still do so at any later time.
	//   - Every other error: nothing took effect, nor will.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c Condition) (etag string, err error)
	// List returns keys that begin with prefix and are above after, in ascending order
	// of bytes, and whether there are more.
	List(ctx context.Context, prefix, after string) (keys []string, more bool, err error)
	// Delete deletes the object, without a condition. Deleting what is not there is no
	// error. After an error it may still take effect at any later time.
	Delete(ctx context.Context, key string) error
}

// Object is an object that was opened.
type Object struct {
	Body io.ReadCloser
	// Size is the length of the body in bytes.
	Size int64
	// ETag is the store's name of this version. It may be a hash of the body and then
	// returns with the same body.
	ETag string
}

// Condition says what a Put replaces: nothing ([IfAbsent]) or one version ([IfETag]).
// The zero Condition is not valid: nothing here is written without a condition.
type Condition struct {
	absent bool
	etag   string
}

// IfAbsent holds where no object has the key.
func IfAbsent() Condition { return Condition{absent: true} }

// IfETag holds where the object has this ETag, which is not empty.
func IfETag(etag string) Condition { return Condition{etag: etag} }

// Absent reports whether the condition is that of [IfAbsent].
func (c Condition) Absent() bool { return c.absent }

// ETag returns the one of [IfETag].
func (c Condition) ETag() string { return c.etag }

// Valid reports whether c is a condition at all.
func (c Condition) Valid() bool { return c.absent != (c.etag != "") }

// undecided reports whether a Put may still take effect.
func undecided(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, guard.ErrUnknown)
}

// refused reports whether a condition did not hold.
func refused(err error) bool {
	return errors.Is(err, ErrPrecondition) || errors.Is(err, ErrNotFound)
}
