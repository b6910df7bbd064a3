package fencing

// strategies are the rows of the table, in its order.
func strategies() []strategy {
	return []strategy{
		nothing(),
		token(),
		etag("etag-s3", "compare-and-set by an ETag that hashes the body (S3)", "A write carries If-Match with the ETag that was read, or If-None-Match: *.", true),
		etag("generation", "compare-and-set by generation (GCS)", "A write carries ifGenerationMatch with the generation that was read, 0 for an object that is not there.", false),
		etag("etag-azure", "compare-and-set by an ETag that is never used twice (Azure Blob)", "A write carries If-Match with the ETag that was read, or If-None-Match: *.", false),
		claimed(),
		slots("create", "create if absent, kept for ever", "Names are created once, by If-None-Match: * or generation 0. In a log a new holder first creates the next slot as a fence.", keptForEver),
		slots("create-gc", "create if absent, old ones deleted", "Names are created once, but a clean-up job, a lifecycle rule or a TTL deletes old ones.", deletedPlainly),
		slots("create-boundary", "create if absent, deleted behind a boundary (objguard's Log)", "Names are created once. The collector raises a boundary object before it deletes, and a writer reads the boundary after it has created.", deletedBehindBoundary),
		manifest("manifest-any", "a manifest; any unlisted object is swept", "Immutable objects, and one manifest that lists them, claimed and replaced by compare-and-set. A collector deletes what the manifest does not list.", true),
		manifest("manifest", "a manifest; only unlisted objects of lower tokens are swept (objguard's Commit and Sweep)", "Immutable objects with the token in their names, and one manifest that lists them, claimed and replaced by compare-and-set. The collector deletes what is not listed and has a token below the manifest's.", false),
		marker(),
		lease(),
		opener(),
		proxies(false),
		proxies(true),
		outbox(),
		idem(true),
		idem(false),
		waitOut(),
		deadline(),
		revocation(),
		lww(false),
		lww(true),
	}
}
