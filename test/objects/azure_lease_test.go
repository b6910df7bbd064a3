//go:build unix

package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/pawlproject/pawl/internal/testwait"
)

// What a refused request of a lease, or under one, is answered.
const (
	noneInPlace   = bloberror.LeaseNotPresentWithBlobOperation
	noneToChange  = bloberror.LeaseNotPresentWithLeaseOperation
	otherInPlace  = bloberror.LeaseIDMismatchWithBlobOperation
	otherToChange = bloberror.LeaseIDMismatchWithLeaseOperation
	anyInPlace    = bloberror.LeaseAlreadyPresent
	idIsMissing   = bloberror.LeaseIDMissing
	accepted      = bloberror.Code("")
)

// The lengths of leases, in seconds, and when the shortest has lapsed for sure.
const (
	infinite      = -1
	shortestLease = 15
	lapsesIn      = 10 * shortestLease * time.Second
)

// The numbers of lease ids.
const (
	withoutID = iota
	firstID
	nextID
	lateID
)

// leased is a blob with a lease of Azure's, whose ids are made from numbers.
type leased struct {
	t testing.TB
	b *blockblob.Client
}

func leaseID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// newLeased makes a blob.
func newLeased(t testing.TB, c *container.Client, name string) leased {
	l := leased{t, c.NewBlockBlobClient(name)}
	l.want(l.write(withoutID, nil), accepted, "create a blob")
	return l
}

// want compares the code of an error; accepted means no error.
func (l leased) want(err error, code bloberror.Code, what string) {
	l.t.Helper()
	got := accepted
	if r, ok := errors.AsType[*azcore.ResponseError](err); ok {
		got = bloberror.Code(r.ErrorCode)
	} else if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	if got != code {
		l.t.Errorf("%s: answered %q, expected %q", what, got, code)
	}
}

func (l leased) ctx() context.Context {
	return policy.WithRetryOptions(l.t.Context(), policy.RetryOptions{MaxRetries: -1})
}

// under says that a request is one under a lease.
func under(id int, only *blob.ModifiedAccessConditions) *blob.AccessConditions {
	a := &blob.AccessConditions{ModifiedAccessConditions: only}
	if id != withoutID {
		text := leaseID(id)
		a.LeaseAccessConditions = &blob.LeaseAccessConditions{LeaseID: &text}
	}
	return a
}

func (l leased) write(id int, only *blob.ModifiedAccessConditions) error {
	_, err := l.b.Upload(l.ctx(), streaming.NopCloser(bytes.NewReader([]byte("x"))), &blockblob.UploadOptions{AccessConditions: under(id, only)})
	return err
}

func (l leased) remove(id int) error {
	_, err := l.b.Delete(l.ctx(), &blob.DeleteOptions{AccessConditions: under(id, nil)})
	return err
}

func (l leased) as(id int) *lease.BlobClient {
	text := leaseID(id)
	c, err := lease.NewBlobClient(l.b, &lease.BlobClientOptions{LeaseID: &text})
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

func (l leased) acquire(id int, seconds int32) error {
	_, err := l.as(id).AcquireLease(l.ctx(), seconds, nil)
	return err
}

func (l leased) change(from, to int) error {
	_, err := l.as(from).ChangeLease(l.ctx(), leaseID(to), nil)
	return err
}

func (l leased) renew(id int) error {
	_, err := l.as(id).RenewLease(l.ctx(), nil)
	return err
}

// breaks ends the lease at once, whoever has it.
func (l leased) breaks() error {
	at := int32(0)
	_, err := l.as(withoutID).BreakLease(l.ctx(), &lease.BlobBreakOptions{BreakPeriod: &at})
	return err
}

func (l leased) state() lease.StateType {
	p, err := l.b.GetProperties(l.ctx(), nil)
	if err != nil || p.LeaseState == nil {
		l.t.Fatalf("state of a lease: %v", err)
	}
	return *p.LeaseState
}

// azureLeases tries what internal/fencing takes for granted of Azure's lease, on its
// emulator. It begins leases that lapse, and returns what looks at them later.
func azureLeases(t *testing.T, c *container.Client) (lapsed func(*testing.T)) {
	t.Run("changed in place", func(t *testing.T) {
		l := newLeased(t, c, "changed")
		l.want(l.acquire(firstID, infinite), accepted, "acquire")
		l.want(l.write(withoutID, nil), idIsMissing, "write without an id")
		l.want(l.write(firstID, nil), accepted, "write under the id in place")
		l.want(l.change(firstID, nextID), accepted, "change the id in place")
		l.want(l.change(firstID, nextID), accepted, "repeat that change")
		l.want(l.write(firstID, nil), otherInPlace, "write under the id before")
		l.want(l.write(nextID, nil), accepted, "write under the id in place")
		l.want(l.change(firstID, lateID), otherToChange, "change an id that is no longer in place")
		l.want(l.renew(firstID), otherToChange, "renew an id that is no longer in place")
		l.want(l.acquire(firstID, infinite), anyInPlace, "acquire what is leased")
		l.want(l.write(nextID, nil), accepted, "write under the id in place")
	})
	t.Run("with a condition", func(t *testing.T) {
		l := newLeased(t, c, "condition")
		every, other := azcore.ETagAny, azcore.ETag(`"0x1"`)
		l.want(l.acquire(firstID, infinite), accepted, "acquire")
		l.want(l.write(firstID, &blob.ModifiedAccessConditions{IfNoneMatch: &every}), bloberror.BlobAlreadyExists, "create what exists")
		l.want(l.write(firstID, &blob.ModifiedAccessConditions{IfMatch: &other}), bloberror.ConditionNotMet, "replace another version")
	})
	t.Run("broken and acquired", func(t *testing.T) {
		l := newLeased(t, c, "broken")
		l.want(l.write(firstID, nil), noneInPlace, "write under a lease that is not there")
		l.want(l.acquire(firstID, infinite), accepted, "acquire")
		l.want(l.breaks(), accepted, "break")
		l.want(l.write(firstID, nil), noneInPlace, "write under a broken lease")
		l.want(l.write(withoutID, nil), accepted, "write without an id")
		l.want(l.change(firstID, lateID), noneToChange, "change a broken lease")
		l.want(l.acquire(nextID, infinite), accepted, "acquire after a break")
		l.want(l.write(firstID, nil), otherInPlace, "write under the lease before")
		// What makes a break unsafe: a late one, and a late acquire.
		l.want(l.breaks(), accepted, "break late")
		l.want(l.acquire(firstID, infinite), accepted, "acquire late, with the id before")
		l.want(l.write(firstID, nil), accepted, "write under the lease before, which is back")
		l.want(l.write(nextID, nil), otherInPlace, "write under the newest lease")
	})
	t.Run("deleted", func(t *testing.T) {
		l := newLeased(t, c, "deleted")
		l.want(l.acquire(firstID, infinite), accepted, "acquire")
		l.want(l.remove(withoutID), idIsMissing, "delete without an id")
		l.want(l.remove(firstID), accepted, "delete under the id in place")
		l.want(l.acquire(nextID, infinite), bloberror.BlobNotFound, "acquire what is not there")
		l.want(l.write(withoutID, nil), accepted, "create without an id")
	})
	overwritten, renewed, taken := newLeased(t, c, "overwritten"), newLeased(t, c, "renewed"), newLeased(t, c, "taken")
	all := []leased{overwritten, renewed, taken}
	for _, l := range all {
		l.want(l.acquire(firstID, shortestLease), accepted, "acquire for a time")
		l.want(l.write(withoutID, nil), idIsMissing, "write without an id")
	}
	return func(t *testing.T) {
		for i, l := range all {
			all[i].t = t
			testwait.Until(t, lapsesIn, "the lease has lapsed", func() bool { return l.state() == lease.StateTypeExpired })
		}
		l := leased{t, renewed.b}
		l.want(l.write(firstID, nil), noneInPlace, "write under a lapsed lease")
		l.want(l.renew(firstID), accepted, "renew a lapsed lease after which nobody wrote")
		l.want(l.write(firstID, nil), accepted, "write under a renewed lease")
		l = leased{t, overwritten.b}
		l.want(l.write(withoutID, nil), accepted, "write without an id after a lapsed lease")
		l.want(l.write(firstID, nil), noneInPlace, "write under a lapsed lease")
		l.want(l.renew(firstID), otherToChange, "renew a lapsed lease after which somebody wrote")
		l.want(l.change(firstID, lateID), noneToChange, "change a lapsed lease")
		l = leased{t, taken.b}
		l.want(l.acquire(nextID, infinite), accepted, "acquire after a lapsed lease")
		l.want(l.write(firstID, nil), otherInPlace, "write under the lapsed lease")
	}
}

// Deleting a container asks for no lease of what is in it.
func azureContainerGoes(t *testing.T, a *azure, over http.RoundTripper) {
	c := a.client(t, a.fresh(t, over), over)
	l := newLeased(t, c, "inside")
	l.want(l.acquire(firstID, infinite), accepted, "acquire")
	_, err := c.Delete(l.ctx(), nil)
	l.want(err, accepted, "delete the container")
}
