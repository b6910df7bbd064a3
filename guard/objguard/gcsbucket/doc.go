// Package gcsbucket is the bucket of Google Cloud Storage, for guard/objguard, by its JSON
// API and preconditions on generations. It uses the standard library alone: what signs the
// requests is the caller's HTTP client, such as that of golang.org/x/oauth2/google.
//
//	client, err := google.DefaultClient(ctx, "https://www.googleapis.com/auth/devstorage.read_write")
//	b := gcsbucket.New(client, "", "my-bucket")
//	g := objguard.New(b, "guards/")
//
// # What it promises
//
// Every write carries ifGenerationMatch and is one request; the client must not repeat it.
// A version is a generation, which never returns. What was not answered, or answered with a
// server error, is guard.ErrUnknown.
//
// # What it does not promise
//
// It was tried on fake-gcs-server, not on Google's service.
package gcsbucket
