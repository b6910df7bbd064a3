package s3bucket

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/pawlproject/pawl/guard/objguard"
)

// What follows is for guard/objguard/probe alone: objguard itself neither deletes under a
// condition nor uploads in parts.

// DeleteIf deletes an object if it has the ETag. Its answers are those of Put.
func (b Bucket) DeleteIf(ctx context.Context, key, etag string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key, IfMatch: &etag}, once)
	if err != nil {
		return written(ctx, err, true)
	}
	return nil
}

// PutParts uploads body as one part and returns what completes the upload under a
// condition, with the answers of Put, and what gives it up.
func (b Bucket) PutParts(ctx context.Context, key string, body []byte, c objguard.Condition) (complete, abort func(context.Context) error, err error) {
	up, err := b.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &b.name, Key: &key}, once)
	if err != nil {
		return nil, nil, fmt.Errorf("s3bucket: %w", err)
	}
	abort = func(ctx context.Context) error {
		_, err := b.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.name, Key: &key, UploadId: up.UploadId}, once)
		return err
	}
	part, err := b.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &b.name, Key: &key, UploadId: up.UploadId, PartNumber: aws.Int32(1),
		Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
	}, once)
	if err != nil {
		_ = abort(ctx)
		return nil, nil, fmt.Errorf("s3bucket: %w", err)
	}
	in := &s3.CompleteMultipartUploadInput{
		Bucket: &b.name, Key: &key, UploadId: up.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: part.ETag, PartNumber: aws.Int32(1)}}},
	}
	in.IfMatch, in.IfNoneMatch = headers(c)
	return func(ctx context.Context) error {
		if _, err := b.client.CompleteMultipartUpload(ctx, in, once); err != nil {
			return written(ctx, err, true)
		}
		return nil
	}, abort, nil
}

// PutUnanswered sends a Put and closes the connection as soon as the request is written,
// without waiting for the answer.
func (b Bucket) PutUnanswered(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) error {
	_, err := b.put(ctx, key, body, size, c, func(o *s3.Options) {
		once(o)
		o.HTTPClient = cutting{o.HTTPClient}
	})
	return err
}

// cutting gives a request up when it is written.
type cutting struct{ client s3.HTTPClient }

func (c cutting) Do(r *http.Request) (*http.Response, error) {
	ctx, cut := context.WithCancel(r.Context())
	defer cut()
	return c.client.Do(r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { cut() },
	})))
}
