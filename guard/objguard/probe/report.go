package probe

import (
	"context"
	"fmt"
	"io"

	"github.com/pawlproject/pawl/guard/objguard"
)

// Verdict is what is said of one property.
type Verdict string

// The verdicts.
const (
	Kept     Verdict = "kept"
	Broken   Verdict = "not kept"
	NotTried Verdict = "not tried"
)

// Result is the verdict on one property.
type Result struct {
	Property string  `json:"property"`
	Verdict  Verdict `json:"verdict"`
	// Needed says that objguard, or the caller, relies on the property.
	Needed bool `json:"needed"`
	// Means is what the property, or its lack, means to a user.
	Means string `json:"means"`
	// Detail is what was seen of a broken property, or why it was not tried.
	Detail string `json:"detail,omitempty"`
}

// Report is the verdict on a store.
type Report []Result

// Safe reports whether the store has all properties that are needed.
func (r Report) Safe() bool { return len(r.Faults()) == 0 }

// Faults are the properties that are needed and broken, or could not be tried.
func (r Report) Faults() (faults []Result) {
	for _, result := range r {
		if result.Needed && result.Verdict != Kept {
			faults = append(faults, result)
		}
	}
	return faults
}

// Options are how hard to try.
type Options struct {
	// Rounds is how many races there are of each kind; 0: 20. Racers is how many writers
	// take part in one; 0: 32.
	Rounds, Racers int
	// Need names properties that the caller relies on besides objguard: [Parts],
	// [Deletes], [OtherTag].
	Need []string
}

// What a bucket may offer besides, for the properties that objguard does not need. Answers
// are those of objguard.Bucket's Put.
type (
	// Parter uploads body in parts, and returns what completes the upload under a
	// condition and what gives it up.
	Parter interface {
		PutParts(ctx context.Context, key string, body []byte, c objguard.Condition) (complete, abort func(context.Context) error, err error)
	}
	// DeleterIf deletes an object under a condition.
	DeleterIf interface {
		DeleteIf(ctx context.Context, key, etag string) error
	}
	// Cutter sends a write and closes the connection before its answer.
	Cutter interface {
		PutUnanswered(ctx context.Context, key string, body io.ReadSeeker, size int64, c objguard.Condition) error
	}
)

// Names of the properties.
const (
	Reads      = "a write is read at once"
	Conditions = "a condition that fails refuses"
	Created    = "one of many creates wins"
	Replaced   = "one of many overwrites wins"
	Gone       = "no overwrite of what was deleted"
	NewTag     = "each body has its own ETag"
	Resolved   = "a lost answer can be resolved"
	OtherTag   = "the same body has a new ETag"
	Parts      = "multipart uploads keep conditions"
	Deletes    = "deletes keep conditions"
)

// property is one thing to try. fault is what was seen that must not be; err says that it
// could not be tried.
type property struct {
	name   string
	needed bool
	kept   string // what it means when it is kept
	broken string
	try    func(ctx context.Context, p *prober) (fault string, err error)
}

var properties = []property{
	{
		Reads, true, "reads and listings show every write that was answered",
		"a claim may miss the holder before it", reads,
	},
	{
		Conditions, true, "a write that comes late is refused",
		"the store ignores conditions: a late write of an old holder is accepted", conditions,
	},
	{
		Created, true, "an object has one creator", "two holders both create, and one of them is lost: it checks, then writes", created,
	},
	{
		Replaced, true, "a version has one successor", "two holders both replace a version, and one of them is lost: it checks, then writes", replaced,
	},
	{
		Gone, true, "what was deleted is not overwritten", "a write that expects a version makes the object anew", gone,
	},
	{
		NewTag, true, "an ETag names one body", "two bodies share an ETag: a write that expects the older one is accepted", newTags,
	},
	{
		Resolved, true, "repeating the request tells what became of the first", "what became of a write without an answer cannot be found out", resolved,
	},
	{
		OtherTag, false, "an ETag names one version", "an ETag is a hash of the body and returns with it; objguard has a nonce in each body", otherTags,
	},
	{
		Parts, false, "uploads in parts are as safe as others", "uploads in parts overwrite; objguard makes none", parts,
	},
	{
		Deletes, false, "a delete can name a version", "a conditional delete may delete a newer version; objguard makes none", deletes,
	},
}

// Needable are the properties that Options.Need may name.
func Needable() (names []string) {
	for _, p := range properties {
		if !p.needed {
			names = append(names, p.name)
		}
	}
	return names
}

func (p property) result(needed bool, fault string, err error) Result {
	r := Result{Property: p.name, Verdict: Kept, Needed: needed, Means: p.kept}
	switch {
	case err != nil:
		r.Verdict, r.Means, r.Detail = NotTried, "nothing is known of it", fmt.Sprint(err)
	case fault != "":
		r.Verdict, r.Means, r.Detail = Broken, p.broken, fault
	}
	return r
}
