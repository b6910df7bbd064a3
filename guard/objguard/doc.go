// Package objguard guards what lies in an object store that has conditional writes: the
// mark of the fencing token is in the body of an object, and each write replaces the very
// version that it was decided on.
//
//	g := objguard.New(bucket, "guards/")       // such as s3bucket.New(client, "my-bucket")
//	p := g.Pointer("orders/7")
//	err := p.Claim(ctx, lease.Fence())         // acquire → claim → read → act
//	err = p.Update(ctx, lease.Fence(), func(old []byte) ([]byte, error) {
//		return edit(old)
//	})
//
// A [Pointer] holds bytes of the user's, and names objects of any size that were committed
// with it ([Pointer.Commit]). A [Log] is a list of records that is appended to.
//
// # What it promises
//
//   - I6: once a pointer was claimed or written with token t, no write of a lower token
//     takes effect, however late it arrives. So it is for a log.
//   - A commit of several objects is seen as a whole or not at all.
//   - Refused means that nothing took effect: no byte that a reader sees. A refused commit
//     may leave uploads that nothing names, until a [Pointer.Sweep].
//   - A lost answer is resolved: the same request is sent again, which can take effect once
//     only, and what is found afterwards tells which of them it was (see Guard.swap in the
//     source). Where that is not possible the answer is guard.ErrUnknown, never a refusal and
//     never success.
//   - No step rests on a conditional delete or on a conditional multipart upload, since
//     stores that keep the other conditions do not keep those. No step reads a clock.
//
// # What it does not promise
//
//   - It is as good as the store's conditions. Many stores that speak S3 accept two writers
//     of one version: run "pawl guard probe" (guard/objguard/probe) against yours, and again
//     after an upgrade.
//   - Only writes through this package are guarded. A write without a condition by another
//     program, a lifecycle rule, a restore or a replication from another bucket is not held
//     back, and can take a mark back ([ErrReset] where it is noticed). "pawl guard ddl
//     --dialect s3" prints the bucket policy that refuses writes without a condition.
//   - A pointer is never deleted. To delete one is to forget what it has seen.
//   - A reader that does not look at the pointer anew may hold an old version, as in every
//     store: read after the claim.
//   - One pointer takes as many writes one after the other as the store answers: some tens
//     a second on Amazon's S3. Writers of one lease that race for it repeat their work.
//   - Objects of a lease that were replaced or given up stay until a lease with a higher
//     token sweeps.
//
// # What lies in the bucket
//
//	guards/orders=2F7/pawl=pointer                         mark, bytes, names of objects
//	guards/orders=2F7/objects/0001883399863775/<nonce>/a   a committed object
//	guards/orders=2F7/pawl=log-pointer                     mark and boundary of the log
//	guards/orders=2F7/log/00000000000000000001             a record
//
// The first line of a pointer and of a record is JSON, the rest the user's bytes as they
// are.
package objguard
