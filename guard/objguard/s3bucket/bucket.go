package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
)

// Bucket is a bucket of a store that speaks S3. It may be copied and used by many
// goroutines.
type Bucket struct {
	client *s3.Client
	name   string
}

var _ objguard.Bucket = Bucket{}

// New returns a bucket by name, as the client reaches it. The bucket must exist.
func New(client *s3.Client, name string) Bucket { return Bucket{client, name} }

// once are the options of a request that must not be repeated by the SDK. Other stores
// than Amazon's do not know the checksums that the SDK would add.
func once(o *s3.Options) {
	o.Retryer = aws.NopRetryer{}
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
}

// reads are the options of a request that the SDK may repeat.
func reads(o *s3.Options) {
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
}

// Get opens an object, see [objguard.Bucket].
func (b Bucket) Get(ctx context.Context, key string) (objguard.Object, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key}, reads)
	if err != nil {
		return objguard.Object{}, read(err)
	}
	if out.ContentLength == nil || aws.ToString(out.ETag) == "" {
		return objguard.Object{}, errors.Join(errors.New("s3bucket: an object without an ETag or a length"), out.Body.Close())
	}
	return objguard.Object{Body: out.Body, Size: *out.ContentLength, ETag: *out.ETag}, nil
}

// Put writes an object under a condition, see [objguard.Bucket].
func (b Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
	return b.put(ctx, key, body, size, c, once)
}

func (b Bucket) put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition, how func(*s3.Options)) (string, error) {
	if !c.Valid() {
		return "", errors.New("s3bucket: a write without a condition")
	}
	in := &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: body, ContentLength: &size}
	in.IfMatch, in.IfNoneMatch = headers(c)
	var sent sending
	out, err := b.client.PutObject(ctx, in, how, sent.note)
	if err != nil {
		return "", written(ctx, err, sent.was)
	}
	return tagOf(out.ETag)
}

// sending notes whether a request left the SDK, which may fail before: without
// credentials, or with a name that cannot be a bucket's.
type sending struct{ was bool }

func (s *sending) note(o *s3.Options) { o.HTTPClient = noting{o.HTTPClient, s} }

type noting struct {
	client s3.HTTPClient
	s      *sending
}

func (n noting) Do(r *http.Request) (*http.Response, error) {
	n.s.was = true
	resp, err := n.client.Do(r)
	// An http.Client follows some redirections of a write with a read, whose answer says
	// nothing of the write.
	if err == nil && resp.Request != nil && resp.Request.Method != r.Method {
		return nil, errors.Join(fmt.Errorf("a %s was redirected and became a %s", r.Method, resp.Request.Method), resp.Body.Close())
	}
	return resp, err
}

// headers are the values of If-Match and If-None-Match.
func headers(c objguard.Condition) (ifMatch, ifNoneMatch *string) {
	if c.Absent() {
		return nil, aws.String("*")
	}
	return aws.String(c.ETag()), nil
}

func tagOf(etag *string) (string, error) {
	if aws.ToString(etag) == "" {
		return "", fmt.Errorf("%w: the store answered a write without an ETag", guard.ErrUnknown)
	}
	return *etag, nil
}

// List lists keys, see [objguard.Bucket].
func (b Bucket) List(ctx context.Context, prefix, after string) (keys []string, more bool, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix}
	if after != "" {
		in.StartAfter = &after
	}
	out, err := b.client.ListObjectsV2(ctx, in, reads)
	if err != nil {
		return nil, false, read(err)
	}
	for _, o := range out.Contents {
		keys = append(keys, aws.ToString(o.Key))
	}
	return keys, aws.ToBool(out.IsTruncated), nil
}

// Delete deletes an object, see [objguard.Bucket].
func (b Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key}, reads)
	if err = read(err); errors.Is(err, objguard.ErrNotFound) {
		return nil
	}
	return err
}

// read names an error of a request that changes nothing.
func read(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok && (e.ErrorCode() == "NoSuchKey" || e.ErrorCode() == "NotFound") {
		return fmt.Errorf("%w: %w", objguard.ErrNotFound, err)
	}
	return fmt.Errorf("s3bucket: %w", err)
}

// written names an error of a conditional write. Only an answer that says so, a
// connection that was never made, and a request that was never sent, mean that nothing
// took effect.
func written(ctx context.Context, err error, sent bool) error {
	answer, answered := errors.AsType[*awshttp.ResponseError](err)
	// The SDK makes one with status 0 of a request that failed.
	if !answered || answer.HTTPStatusCode() == 0 {
		op, ok := errors.AsType[*net.OpError](err)
		switch {
		case !sent && ctx.Err() != nil:
			return fmt.Errorf("s3bucket: %w: %w", context.Cause(ctx), err)
		case !sent, ok && op.Op == "dial" && ctx.Err() == nil:
			return fmt.Errorf("s3bucket: %w", err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w: %w", guard.ErrUnknown, context.Cause(ctx), err)
		}
		return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	}
	code := ""
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		code = e.ErrorCode()
	}
	switch status := answer.HTTPStatusCode(); {
	case status == 412:
		return fmt.Errorf("%w: %w", objguard.ErrPrecondition, err)
	case status == 409:
		return fmt.Errorf("%w: %w", objguard.ErrConflict, err)
	case status == 404 && code == "NoSuchKey":
		return fmt.Errorf("%w: %w", objguard.ErrNotFound, err)
	case status == 408, status < 400, status >= 500 && status != 501:
		return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	}
	return fmt.Errorf("s3bucket: %w", err)
}
