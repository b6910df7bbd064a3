package azurebucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
)

// pagesMax is how many pages one listing reads where the store does not begin it at the
// key that it is asked for, as azurite does not. A page of the service has 5,000 keys.
const pagesMax = 10_000

// Bucket is a container of Azure Blob Storage. It may be copied and used by many
// goroutines.
type Bucket struct{ client *container.Client }

var _ objguard.Bucket = Bucket{}

// New returns a container, as the client reaches it. It must exist.
func New(client *container.Client) Bucket { return Bucket{client} }

// Get opens an object, see [objguard.Bucket].
func (b Bucket) Get(ctx context.Context, key string) (objguard.Object, error) {
	out, err := b.client.NewBlobClient(key).DownloadStream(ctx, nil)
	if err != nil {
		return objguard.Object{}, read(err)
	}
	if out.ETag == nil || *out.ETag == "" || out.ContentLength == nil {
		return objguard.Object{}, errors.Join(errors.New("azurebucket: an object without an ETag or a length"), out.Body.Close())
	}
	return objguard.Object{Body: out.Body, Size: *out.ContentLength, ETag: string(*out.ETag)}, nil
}

// Put writes an object under a condition, see [objguard.Bucket].
func (b Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
	if !c.Valid() {
		return "", errors.New("azurebucket: a write without a condition")
	}
	start, err := body.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", fmt.Errorf("azurebucket: %w", err)
	}
	sent := &sending{body: body, start: start, size: size}
	only := &blob.ModifiedAccessConditions{}
	if c.Absent() {
		every := azcore.ETagAny
		only.IfNoneMatch = &every
	} else {
		tag := azcore.ETag(c.ETag())
		only.IfMatch = &tag
	}
	once := policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
	var resp *http.Response
	once = policy.WithCaptureResponse(once, &resp)
	out, err := b.client.NewBlockBlobClient(key).Upload(once, sent, &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: only},
	})
	// An http.Client follows some redirections of a write with a read, whose answer says
	// nothing of the write.
	if resp != nil && resp.Request != nil && resp.Request.Method != http.MethodPut {
		return "", fmt.Errorf("%w: a write was redirected and became a %s", guard.ErrUnknown, resp.Request.Method)
	}
	if err != nil {
		return "", written(ctx, err, sent.begun())
	}
	if out.ETag == nil || *out.ETag == "" {
		return "", fmt.Errorf("%w: the store answered a write without an ETag", guard.ErrUnknown)
	}
	return string(*out.ETag), nil
}

// sending is the body of one request. The SDK measures it from its beginning, and closes
// it, which is the caller's. A request whose body was not read was not sent: without
// credentials, for example, or without a connection.
type sending struct {
	body        io.ReadSeeker
	start, size int64
	at          int64
	read        atomic.Bool
}

func (s *sending) Read(p []byte) (int, error) {
	s.read.Store(true)
	left := s.size - s.at
	if left <= 0 {
		return 0, io.EOF
	}
	n, err := s.body.Read(p[:min(int64(len(p)), left)])
	s.at += int64(n)
	if err == io.EOF && s.at < s.size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (s *sending) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.size
	}
	if offset < 0 || offset > s.size {
		return 0, fmt.Errorf("azurebucket: no place %d in a body of %d bytes", offset, s.size)
	}
	if _, err := s.body.Seek(s.start+offset, io.SeekStart); err != nil {
		return 0, err
	}
	s.at = offset
	return offset, nil
}

func (s *sending) Close() error { return nil }

// begun reports whether something may have been sent. An empty body is not read.
func (s *sending) begun() bool { return s.size == 0 || s.read.Load() }

// List lists keys, see [objguard.Bucket].
func (b Bucket) List(ctx context.Context, prefix, after string) (keys []string, more bool, err error) {
	o := &container.ListBlobsFlatOptions{Prefix: &prefix}
	if after != "" && strings.HasPrefix(after, prefix) {
		o.StartFrom = &after // that key itself is the first
	}
	pages := b.client.NewListBlobsFlatPager(o)
	for range pagesMax {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, false, read(err)
		}
		for _, item := range page.Segment.BlobItems {
			if item.Name != nil && *item.Name > after {
				keys = append(keys, *item.Name)
			}
		}
		if len(keys) > 0 || !pages.More() {
			return keys, pages.More(), nil
		}
	}
	return nil, false, fmt.Errorf("azurebucket: no key above %.100q in %d pages", after, pagesMax)
}

// Delete deletes an object, see [objguard.Bucket].
func (b Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.client.NewBlobClient(key).Delete(ctx, nil)
	if err = read(err); errors.Is(err, objguard.ErrNotFound) {
		return nil
	}
	return err
}

// read names an error of a request without a condition.
func read(err error) error {
	if err == nil {
		return nil
	}
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return fmt.Errorf("%w: %w", objguard.ErrNotFound, err)
	}
	return fmt.Errorf("azurebucket: %w", err)
}

// written names an error of a conditional write. Only an answer that says so, and a
// request that was never sent, mean that nothing took effect. "Exists already" is a 409
// here, and a 412 may be about a lease that has nothing to do with the condition.
func written(ctx context.Context, err error, sent bool) error {
	answer, answered := errors.AsType[*azcore.ResponseError](err)
	switch {
	case !answered && ctx.Err() != nil:
		return fmt.Errorf("%w: %w: %w", guard.ErrUnknown, context.Cause(ctx), err)
	case !answered && sent:
		return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	case !answered:
		return fmt.Errorf("azurebucket: %w", err)
	case bloberror.HasCode(err, bloberror.ConditionNotMet, bloberror.BlobAlreadyExists):
		return fmt.Errorf("%w: %w", objguard.ErrPrecondition, err)
	case bloberror.HasCode(err, bloberror.BlobNotFound):
		return fmt.Errorf("%w: %w", objguard.ErrNotFound, err)
	}
	switch status := answer.StatusCode; {
	case status == http.StatusRequestTimeout, status < 400, status >= 500 && status != http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	}
	return fmt.Errorf("azurebucket: %w", err)
}

// PutUnanswered sends a Put and gives it up as soon as the request is written, without
// waiting for the answer. It is for guard/objguard/probe.
func (b Bucket) PutUnanswered(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	_, err := b.Put(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { cut() },
	}), key, body, size, c)
	return err
}
