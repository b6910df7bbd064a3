// Package azurebucket is the bucket of Azure Blob Storage, for guard/objguard: a container,
// by conditions on ETags.
//
//	credential, err := azidentity.NewDefaultAzureCredential(nil)
//	client, err := container.NewClient("https://ACCOUNT.blob.core.windows.net/CONTAINER", credential, nil)
//	g := objguard.New(azurebucket.New(client), "guards/")
//
// # What it promises
//
// Every write carries If-None-Match: * or If-Match, and is one request: the SDK's own
// repetitions are off for it, whatever the client's options say, since they turn a write
// that took effect into a refusal. A version is an ETag, which never returns. What was not
// answered, or answered with a server error, is guard.ErrUnknown.
//
// # What it does not promise
//
// It was tried on azurite, the emulator, not on Azure's service.
//
// The client must reach the primary region: its "-secondary" copy lags. In an account with
// a hierarchical namespace keys are not in the order of bytes; it is no bucket then.
//
// Objects are written in one request, which the service takes up to 5,000 MiB.
//
// A lease of Azure's on the blob of a pointer is not used: the write of a pointer has no
// lease id here, and is refused while somebody has leased the blob.
package azurebucket
