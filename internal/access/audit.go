package access

// AuditRecord is one operation or attempt, for the audit log. Nothing in it is a
// secret: a handle stands for a session and gives no power over it.
type AuditRecord struct {
	// Identity is empty when the caller was refused, or where callers are anonymous.
	Identity, Remote string
	// Verb is the request. Outcome is its result: "granted", "ended" (a lease, by
	// force), "done", the reason of a refusal, "unknown" if the caller went away before
	// the answer, or another word for what happened without a request.
	Verb, Outcome string
	Names         []string
	Token         uint64
	// Handle of the session that it happened to.
	Handle string
	// Reason is the caller's reason, Detail the server's message.
	Reason, Detail string
	// Leases that ended with a session.
	Leases int
	// Count of the records that this one stands for, where there were too many.
	Count int
	// Idle: a session of an identity without the right to hold began or ended, or one that held
	// nothing. Such records must not be able to fill a disk.
	Idle bool
}

// AuditLog keeps audit records. Its methods may be called by several goroutines.
type AuditLog interface {
	// Record never blocks.
	Record(AuditRecord)
	// Writable: what is noted now will be kept. When it is false and the log is
	// required, nothing is granted.
	Writable() bool
}
