package gcsbucket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
)

const (
	// service is Google's endpoint.
	service = "https://storage.googleapis.com"
	// answerMax is how much is read of an answer that is not an object, in bytes.
	answerMax = 8 << 20
	// textMax is how much of it is shown in an error, in bytes.
	textMax = 300
)

// Bucket is a bucket of Google Cloud Storage. It may be copied and used by many
// goroutines.
type Bucket struct {
	client   *http.Client
	endpoint string
	name     string
}

var _ objguard.Bucket = Bucket{}

// New returns a bucket by name. The client signs the requests. An endpoint that is not
// empty is another server's than Google's, such as http://127.0.0.1:4443.
func New(client *http.Client, endpoint, name string) Bucket {
	if endpoint == "" {
		endpoint = service
	}
	return Bucket{client, strings.TrimSuffix(endpoint, "/"), name}
}

func (b Bucket) object(key string) string {
	return b.endpoint + "/storage/v1/b/" + url.PathEscape(b.name) + "/o/" + url.PathEscape(key)
}

// Get opens an object, see [objguard.Bucket].
func (b Bucket) Get(ctx context.Context, key string) (objguard.Object, error) {
	resp, err := b.do(ctx, http.MethodGet, b.object(key)+"?alt=media", nil, 0)
	if err != nil {
		return objguard.Object{}, fmt.Errorf("gcsbucket: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return objguard.Object{}, answered(resp, false)
	}
	generation := resp.Header.Get("X-Goog-Generation")
	if generation == "" || resp.ContentLength < 0 {
		return objguard.Object{}, errors.Join(errors.New("gcsbucket: an object without a generation or a length"), resp.Body.Close())
	}
	return objguard.Object{Body: resp.Body, Size: resp.ContentLength, ETag: generation}, nil
}

// Put writes an object under a condition, see [objguard.Bucket].
func (b Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) (string, error) {
	if !c.Valid() {
		return "", errors.New("gcsbucket: a write without a condition")
	}
	generation := "0"
	if !c.Absent() {
		generation = c.ETag()
		if _, err := strconv.ParseInt(generation, 10, 64); err != nil {
			// It cannot be the generation of any object.
			return "", fmt.Errorf("%w: %q is no generation", objguard.ErrPrecondition, generation)
		}
	}
	q := url.Values{"uploadType": {"media"}, "name": {key}, "ifGenerationMatch": {generation}}
	resp, err := b.do(ctx, http.MethodPost, b.endpoint+"/upload/storage/v1/b/"+url.PathEscape(b.name)+"/o?"+q.Encode(), body, size)
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("%w: %w: %w", guard.ErrUnknown, context.Cause(ctx), err)
		case ok && op.Op == "dial":
			return "", fmt.Errorf("gcsbucket: %w", err)
		}
		return "", fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", answered(resp, true)
	}
	var made struct{ Generation string }
	if err := decode(resp, &made); err != nil || made.Generation == "" {
		return "", fmt.Errorf("%w: the store answered a write without a generation (%w)", guard.ErrUnknown, err)
	}
	return made.Generation, nil
}

// List lists keys, see [objguard.Bucket].
func (b Bucket) List(ctx context.Context, prefix, after string) (keys []string, more bool, err error) {
	q := url.Values{"prefix": {prefix}, "fields": {"items(name),nextPageToken"}}
	if after != "" {
		q.Set("startOffset", after+"\x00") // the first name above it
	}
	resp, err := b.do(ctx, http.MethodGet, b.endpoint+"/storage/v1/b/"+url.PathEscape(b.name)+"/o?"+q.Encode(), nil, 0)
	if err != nil {
		return nil, false, fmt.Errorf("gcsbucket: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, false, answered(resp, false)
	}
	var page struct {
		Items         []struct{ Name string }
		NextPageToken string
	}
	if err := decode(resp, &page); err != nil {
		return nil, false, fmt.Errorf("gcsbucket: %w", err)
	}
	for _, o := range page.Items {
		keys = append(keys, o.Name)
	}
	return keys, page.NextPageToken != "", nil
}

// Delete deletes an object, see [objguard.Bucket].
func (b Bucket) Delete(ctx context.Context, key string) error {
	resp, err := b.do(ctx, http.MethodDelete, b.object(key), nil, 0)
	if err != nil {
		return fmt.Errorf("gcsbucket: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body.Close()
	}
	if err := answered(resp, false); !errors.Is(err, objguard.ErrNotFound) {
		return err
	}
	return nil
}

func (b Bucket) do(ctx context.Context, method, at string, body io.Reader, size int64) (*http.Response, error) {
	if body != nil {
		body = io.NopCloser(body) // the caller's, to be sent again
	}
	r, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/octet-stream")
		if r.ContentLength = size; size == 0 {
			r.Body = http.NoBody
		}
	}
	resp, err := b.client.Do(r)
	// An http.Client follows some redirections of a write with a read, whose answer says
	// nothing of the write.
	if err == nil && resp.Request != nil && resp.Request.Method != method {
		return nil, errors.Join(fmt.Errorf("a %s was redirected and became a %s", method, resp.Request.Method), resp.Body.Close())
	}
	return resp, err
}

// decode reads an answer in JSON to its end.
func decode(resp *http.Response, v any) error {
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// answered is the error of an answer that is no success, and closes it. A write may have
// taken effect where the server failed.
func answered(resp *http.Response, write bool) error {
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, textMax)) // for people
	told := fmt.Errorf("gcsbucket: %s: %s", resp.Status, strings.Join(strings.Fields(string(text)), " "))
	switch status := resp.StatusCode; {
	case status == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", objguard.ErrPrecondition, told)
	case status == http.StatusNotFound && !strings.Contains(string(text), "bucket does not exist"):
		return fmt.Errorf("%w: %w", objguard.ErrNotFound, told)
	case status == http.StatusConflict:
		return fmt.Errorf("%w: %w", objguard.ErrConflict, told)
	case write && (status == http.StatusRequestTimeout || status >= 500 || status < 400):
		return fmt.Errorf("%w: %w", guard.ErrUnknown, told)
	}
	return told
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
