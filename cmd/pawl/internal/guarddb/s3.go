package guarddb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/pgdsn"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/s3bucket"
)

// S3 is a part of a bucket, and how to reach it.
type S3 struct {
	Bucket, Prefix string
	// Endpoints are URLs of the store; none: that of AWS's own environment and files, or
	// Amazon's service.
	Endpoints []string
	// Region is the bucket's; empty: that of AWS's environment and files, or us-east-1
	// with an endpoint.
	Region string
	// PathStyle puts the bucket's name in the path and not in the host's name.
	PathStyle bool
}

// ErrS3 is the [ErrDSN] of a bucket.
var ErrS3 = errors.New(`expected s3://BUCKET/PREFIX, with "?endpoint=URL&region=NAME&path_style=true" where they are needed`)

// ParseS3 reads s3://BUCKET/PREFIX?endpoint=URL&region=NAME&path_style=true. The only error
// is ErrS3. Credentials come from AWS's environment and files alone.
func ParseS3(dsn string) (S3, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" || strings.Contains(u.Host, ":") {
		return S3{}, ErrS3
	}
	s := S3{Bucket: u.Host, Prefix: strings.TrimPrefix(u.Path, "/")}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return S3{}, ErrS3
	}
	for name, given := range values {
		switch name {
		case "endpoint":
			s.Endpoints = given
		case "region":
			s.Region = given[0]
		case "path_style":
			if s.PathStyle, err = strconv.ParseBool(given[0]); err != nil {
				return S3{}, ErrS3
			}
		default:
			return S3{}, ErrS3
		}
	}
	for _, e := range s.Endpoints {
		if CheckEndpoint(e) != nil {
			return S3{}, ErrS3
		}
	}
	return s, nil
}

// CheckEndpoint returns nil for the URL of a store.
func CheckEndpoint(endpoint string) error {
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("expected an http or https URL without a user")
	}
	return nil
}

// ErrRegion: nothing says in which region a bucket of Amazon's lies.
var ErrRegion = errors.New("no region is known: set AWS_REGION or write ?region=NAME behind the prefix; a store that is not Amazon's needs ?endpoint=URL instead")

// connectionsKept is how many connections to a store stay open for the next request.
const connectionsKept = 64

// Buckets returns the bucket as it is reached by each endpoint. It sends nothing.
func (s S3) Buckets(ctx context.Context) ([]objguard.Bucket, error) {
	// What the SDK logs is in the errors, too.
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{}), config.WithHTTPClient(
		awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = connectionsKept }),
	)}
	if s.Region != "" {
		options = append(options, config.WithRegion(s.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("AWS's settings: %w", err)
	}
	cfg.Credentials = credentials{cfg.Credentials}
	if cfg.Region == "" {
		if len(s.Endpoints) == 0 && cfg.BaseEndpoint == nil {
			return nil, ErrRegion
		}
		cfg.Region = "us-east-1"
	}
	client := func(endpoint *string) objguard.Bucket {
		return s3bucket.New(s3.NewFromConfig(cfg, func(o *s3.Options) {
			o.UsePathStyle = s.PathStyle
			if endpoint != nil {
				o.BaseEndpoint = endpoint
			}
		}), s.Bucket)
	}
	if len(s.Endpoints) == 0 {
		return []objguard.Bucket{client(nil)}, nil
	}
	var buckets []objguard.Bucket
	for _, e := range s.Endpoints {
		buckets = append(buckets, client(aws.String(e)))
	}
	return buckets, nil
}

// credentialsMax bounds the search for credentials, which may ask services on the network.
const credentialsMax = 10 * time.Second

var errCredentials = errors.New("no credentials for the store")

// credentials are those of AWS's settings, with an error that is told from a store's.
type credentials struct{ of aws.CredentialsProvider }

func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, credentialsMax)
	defer cancel()
	found, err := c.of.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("%w: %w", errCredentials, err)
	}
	return found, nil
}

func openS3(dsn string) (*DB, error) {
	s, err := ParseS3(dsn)
	if err != nil {
		return nil, dsnError{err}
	}
	buckets, err := s.Buckets(context.Background())
	if err != nil {
		return nil, exit.Failed(exit.CodeUsage, "%s", pgdsn.OneLine(err))
	}
	return &DB{
		marks: objguard.New(buckets[0], s.Prefix), Close: func() {},
		Text: pgdsn.OneLine, explain: ExplainS3,
	}, nil
}

func isNoBucket(err error) bool {
	told, ok := errors.AsType[smithy.APIError](err)
	return ok && told.ErrorCode() == "NoSuchBucket"
}

// ExplainS3 finds the exit code of an error of a bucket, and what to do about it.
func ExplainS3(err error) (code int, advice string) {
	answer, answered := errors.AsType[*awshttp.ResponseError](err)
	switch {
	case errors.Is(err, objguard.ErrBusy):
		return exit.CodeNotAcquired, ""
	case errors.Is(err, objguard.ErrForeignObject), errors.Is(err, objguard.ErrReset):
		return exit.CodeData, ""
	case errors.Is(err, errCredentials):
		return exit.CodeUnavailable, "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	case !answered, answer.HTTPStatusCode() == 0:
		if _, ok := errors.AsType[*net.DNSError](err); ok {
			return exit.CodeUnavailable, "; a store that is not Amazon's mostly needs path_style=true"
		}
		return exit.CodeUnavailable, ""
	case isNoBucket(err):
		return exit.CodeUnavailable, "; the bucket must exist"
	case answer.HTTPStatusCode() == http.StatusForbidden, answer.HTTPStatusCode() == http.StatusUnauthorized:
		return exit.CodeDenied, ""
	case answer.HTTPStatusCode() >= 500, answer.HTTPStatusCode() == http.StatusNotFound:
		return exit.CodeUnavailable, ""
	}
	return exit.CodeOther, ""
}
