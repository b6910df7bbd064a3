package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/pawlproject/pawl/cmd/pawl/internal/guarddb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/s3bucket"
)

// bucketEnv hands the bucket to the workers: the DSN of a user's, or the URL of the
// demo's own.
const bucketEnv = "PAWL_DEMO_BUCKET"

// ownBucket is the name of the bucket in the demo's own store.
const ownBucket = "demo"

// bucketPlace is a part of a bucket with a random name.
type bucketPlace struct {
	at     string
	bucket objguard.Bucket
	prefix string
	own    *ownStore // nil: the user's
}

// makeBucket uses the bucket that a DSN names, or, where it is "s3" alone, makes a store of
// the demo's own.
func makeBucket(ctx context.Context, dsn string) (*bucketPlace, error) {
	p := &bucketPlace{at: dsn, prefix: "pawl-demo-" + rand.Text() + "/"}
	if dsn == "s3" {
		own, err := startStore()
		if err != nil {
			return nil, err
		}
		p.own, p.at = own, own.url
	}
	var err error
	var below string
	if p.bucket, below, err = bucketAt(ctx, p.at); err != nil {
		return nil, errors.Join(err, p.own.stop())
	}
	p.prefix = below + p.prefix
	return p, nil
}

// bucketAt reaches the bucket that bucketEnv names.
func bucketAt(ctx context.Context, at string) (b objguard.Bucket, below string, err error) {
	if strings.HasPrefix(at, "http:") {
		return s3bucket.New(s3.New(s3.Options{
			BaseEndpoint: &at, UsePathStyle: true, Region: "local",
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "demo", SecretAccessKey: "demo"}, nil
			}),
		}), ownBucket), "", nil
	}
	s, err := guarddb.ParseS3(at)
	if err != nil {
		return nil, "", err
	}
	buckets, err := s.Buckets(ctx)
	if err != nil {
		return nil, "", err
	}
	if s.Prefix != "" {
		below = strings.TrimSuffix(s.Prefix, "/") + "/"
	}
	return buckets[0], below, nil
}

func (p *bucketPlace) setting() Setting {
	s := Setting{
		Ledger: "S3", Guard: "objguard", Where: "prefix " + p.prefix,
		Late: "; its If-Match held, because it read the ETag anew",
	}
	if p.own != nil {
		s.Ledger, s.Where = "an object store that speaks S3, which this demo serves from memory", ""
	}
	return s
}

func (p *bucketPlace) ledger(ctx context.Context, a Act) (ledger, []string, []string, error) {
	prefix := p.prefix + a.String() + "/"
	book, err := openBucket(ctx, p.at, prefix)
	return book, []string{"--ledger", prefix}, []string{bucketEnv + "=" + p.at}, err
}

func (p *bucketPlace) remove() error {
	if p.own != nil {
		return p.own.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropMax)
	defer cancel()
	keys, _, err := p.bucket.List(ctx, p.prefix, "")
	for _, key := range keys {
		err = errors.Join(err, p.bucket.Delete(ctx, key))
	}
	if err != nil {
		return fmt.Errorf("delete the demo's objects below %s: %w", p.prefix, err)
	}
	return nil
}

// bucketLedger is an account in a bucket: guarded in a pointer, unguarded in an object that
// is replaced by conditional writes alone. It has entries in one of the two.
type bucketLedger struct {
	bucket objguard.Bucket
	plain  string
	*objguard.Pointer
}

func openBucket(ctx context.Context, at, prefix string) (*bucketLedger, error) {
	b, _, err := bucketAt(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &bucketLedger{b, prefix + "unguarded", objguard.New(b, prefix).Pointer(leaseName)}, nil
}

func (l *bucketLedger) close() {}

// create has nothing to do: the opening entry is told without being stored, since nobody
// holds a lease yet who could write a pointer.
func (l *bucketLedger) create(context.Context) error { return nil }

func (l *bucketLedger) install(context.Context) error { return nil }

// addTries is how often a conditional write is repeated on what is there by then.
const addTries = 10

// add replaces the object under a condition, and reads it anew when the condition failed,
// as careful programs do. That nothing comes between does not help: the entry's balance
// was worked out before.
func (l *bucketLedger) add(ctx context.Context, e entry) error {
	for range addTries {
		all, etag, err := l.read(ctx)
		if err != nil {
			return err
		}
		body, err := json.Marshal(append(all, e))
		if err != nil {
			return fmt.Errorf("add to the ledger: %w", err)
		}
		c := objguard.IfAbsent()
		if etag != "" {
			c = objguard.IfETag(etag)
		}
		_, err = l.bucket.Put(ctx, l.plain, bytes.NewReader(body), int64(len(body)), c)
		if err == nil {
			return nil
		}
		if !errors.Is(err, objguard.ErrPrecondition) && !errors.Is(err, objguard.ErrConflict) {
			return fmt.Errorf("add to the ledger: %w", err)
		}
	}
	return fmt.Errorf("add to the ledger: %d tries failed", addTries)
}

// read reads the unguarded object; the ETag is empty where there is none.
func (l *bucketLedger) read(ctx context.Context) (all []entry, etag string, err error) {
	o, err := l.bucket.Get(ctx, l.plain)
	if errors.Is(err, objguard.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the ledger: %w", err)
	}
	defer o.Body.Close()
	body, err := io.ReadAll(io.LimitReader(o.Body, objguard.DataMax))
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the ledger: %w", err)
	}
	return all, o.ETag, nil
}

func (l *bucketLedger) addUnder(ctx context.Context, f guard.Fence, e entry) error {
	return l.Update(ctx, f, func(old []byte) ([]byte, error) {
		all, err := entriesIn(old)
		if err != nil {
			return nil, err
		}
		return json.Marshal(append(all, e))
	})
}

func entriesIn(data []byte) (all []entry, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return all, nil
}

func (l *bucketLedger) entries(ctx context.Context) ([]entry, error) {
	plain, _, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	data, err := l.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	guarded, err := entriesIn(data)
	if err != nil {
		return nil, err
	}
	return append(append([]entry{{Who: "opening", Balance: openingBalance}}, plain...), guarded...), nil
}

func (l *bucketLedger) balance(ctx context.Context) (int64, error) {
	all, err := l.entries(ctx)
	if err != nil {
		return 0, err
	}
	return all[len(all)-1].Balance, nil
}

// workersBucket is the bucket that a worker was given; empty: none.
func workersBucket() string { return os.Getenv(bucketEnv) }
