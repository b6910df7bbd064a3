package fencing

import "github.com/pawlproject/pawl/internal/fencing/table"

// stores are what people have, and what they should do with it.
var stores = []table.Store{
	{
		Key: "postgres", Name: "PostgreSQL", Strategies: []string{"token", "outbox"},
		Do:     "Use the guard (docs/guards-postgres.md): the database checks the token in the transaction that does the work.",
		Leaves: "What the holder does outside of the database. For that write an outbox row in the same transaction.",
	},
	{
		Key: "sqlite", Name: "SQLite", Strategies: []string{"token", "outbox"},
		Do:     "Use the guard (guard/sqlguard): the database checks the token in the transaction that does the work.",
		Leaves: "What the holder does outside of the database.",
	},
	{
		Key: "s3", Name: "S3 and what speaks like it", Strategies: []string{"cas-claim", "manifest", "create-boundary", "create", "token-in-name", "etag-s3", "manifest-any", "create-gc", "deadline", "revocation", "wait-out", "nothing"},
		Do:     "Use objguard (docs/guards-objects.md). First try the store: `pawl guard probe s3://BUCKET/PREFIX`. An If-Match of your own is not enough: a holder that reads late, or again after a 412, wins.",
		Leaves: "Writers that send no condition (a bucket policy can demand one), and anything outside of the bucket.",
	},
	{
		Key: "gcs", Name: "Google Cloud Storage", Strategies: []string{"cas-claim", "manifest", "create-boundary", "create", "token-in-name", "generation", "manifest-any", "create-gc", "deadline", "wait-out", "nothing"},
		Do:     "Use objguard with its gcsbucket (docs/guards-objects.md). A generation is never used twice, but a precondition on one is not enough: a holder that reads late, or again after a 412, wins.",
		Leaves: "Writers that send no precondition, and anything outside of the bucket.",
	},
	{
		Key: "azure", Name: "Azure Blob Storage", Strategies: []string{"cas-claim", "manifest", "create-boundary", "create", "lease", "token-in-name", "etag-azure", "manifest-any", "create-gc", "deadline", "wait-out", "nothing"},
		Do:     "Use objguard (docs/guards-objects.md) with a bucket that you write: four methods, and a contract to test them by. A blob lease on top of it also keeps out writers that send no condition: an infinite one, taken by changing the id in place and never by breaking it.",
		Leaves: "A lease that lapses or is broken protects nothing; deleting the container ignores it.",
	},
	{
		Key: "http", Name: "an HTTP service that you can change, or put a proxy before", Strategies: []string{"token", "proxy", "proxy-two", "idem-op", "outbox"},
		Do:     "You cannot change it: put one `pawl guard proxy` before it (docs/guards-http.md), and set `--max-upstream` above its longest request. You can: use the middleware of httpguard, or show the token to the database in the transaction that does the work.",
		Leaves: "Requests that pass beside the proxy, and what the service does elsewhere.",
	},
	{
		Key: "api", Name: "an API of others that takes idempotency keys", Strategies: []string{"idem-op", "outbox", "idem-token"},
		Do:     "Make the key from the operation, never from the token, and store it with the body in a guarded database before the first send. Stop repeating well before the provider forgets keys, and ask it then what has happened.",
		Leaves: "The order of different operations, and repeats after the key was forgotten.",
	},
	{
		Key: "api-without", Name: "an API of others without idempotency keys", Strategies: []string{"proxy", "wait-out", "revocation", "outbox", "nothing"},
		Do:     "Nothing keeps a late call out. Send all calls through one outbox relay or one `pawl guard proxy`, look before each call whether it was done (by your own reference in its data), and give the lease a lock-delay longer than a call can take.",
		Leaves: "A call whose answer is lost may have happened, or happen yet: only the provider can tell.",
	},
	{
		Key: "queue", Name: "a queue or log (Kafka, Pulsar, NATS)", Strategies: []string{"opener", "outbox", "idem-op", "nothing"},
		Do:     "Open the producer, ask the lock service whether your token is still the newest, then read and write; never open again after being fenced. Consumers should drop what they have had, by the operation's id.",
		Leaves: "Several topics or partitions together, unless the store has transactions; what consumers do.",
	},
	{
		Key: "cassandra", Name: "Cassandra, ScyllaDB", Strategies: []string{"lww", "lww-clock", "nothing"},
		Do:     "Put the token into the high bits of USING TIMESTAMP for whole rows that are overwritten blindly, and write a live row instead of deleting. For anything that reads before it writes use lightweight transactions on a row that holds the token.",
		Leaves: "An old holder is told that it succeeded; an update that was read and written back is lost.",
	},
	{
		Key: "files", Name: "files, NFS", Strategies: []string{"wait-out", "revocation", "nothing"},
		Do:     "Put the pointer into a guarded database and keep the files immutable, under names with the token. A lock on NFS is a lease itself, and no fence. Otherwise take the old holder's mount away before the next is granted.",
		Leaves: "What a client of NFS has buffered may be written after it has lost its lock.",
	},
}
