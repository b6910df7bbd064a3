// Package s3bucket is the bucket of Amazon S3, and of stores that speak its protocol and
// keep its conditions, for guard/objguard.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	b := s3bucket.New(s3.NewFromConfig(cfg), "my-bucket")
//	g := objguard.New(b, "guards/")
//
// # What it promises
//
// Every write carries If-None-Match: * or If-Match, and is one request: the SDK's own
// repetitions are off for it, since they turn a write that took effect into a refusal.
// What the store did not answer, or answered with a server error, is guard.ErrUnknown.
// 409 ConditionalRequestConflict is objguard.ErrConflict, not "exists already".
//
// # What it does not promise
//
// Whether the store keeps the conditions. Many that speak the protocol do not, or only
// without races: "pawl guard probe" tries it. It was tried on versitygw and gofakes3, not
// on Amazon's service.
//
// Objects are written in one request, up to 5 GiB.
package s3bucket
