package rest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Duration is written as Go writes one: "10s", "1m30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf(`%.40q is not a duration; expected a number and a unit, such as "10s" or "1m30s"`, b)
	}
	*d = Duration(v)
	return nil
}

// Schema implements huma.SchemaProvider.
func (Duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type:        huma.TypeString,
		Description: "A duration as Go writes it.",
		Examples:    []any{"10s", "1m30s"},
	}
}

// Number is an unsigned number of up to 64 bits, a string in JSON because many
// parsers keep only 53 bits of a number.
type Number uint64

// MarshalText implements encoding.TextMarshaler.
func (n Number) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(n), 10), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Number) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return fmt.Errorf(`%.40q is not a number; expected decimal digits in a string`, b)
	}
	*n = Number(v)
	return nil
}

// Schema implements huma.SchemaProvider.
func (Number) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type:        huma.TypeString,
		Pattern:     "^[0-9]{1,20}$",
		Description: "A number of up to 64 bits, in decimal digits.",
		Examples:    []any{"4611686018427387905"},
	}
}

// Bytes are any bytes, in base64.
type Bytes []byte

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return base64.StdEncoding.AppendEncode(nil, b), nil }

// UnmarshalText implements encoding.TextUnmarshaler. The standard decoder skips
// line ends; here one text is one value, and one value one text.
func (b *Bytes) UnmarshalText(text []byte) error {
	v, err := base64.StdEncoding.Strict().AppendDecode(nil, text)
	if err != nil || bytes.ContainsAny(text, "\r\n") {
		return fmt.Errorf("%.40q is not base64; expected the standard alphabet with padding, in one line", text)
	}
	*b = v
	return nil
}

// Schema implements huma.SchemaProvider.
func (Bytes) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type:        huma.TypeString,
		Description: "Any bytes, in base64.",
		Examples:    []any{"MTAuMC4wLjI6ODA4MA=="},
		// As an extension: by the field of its own, huma would refuse no bytes.
		Extensions: map[string]any{"contentEncoding": "base64"},
	}
}

// Token is a fencing token, a string of decimal digits in JSON.
type Token guard.Token

// MarshalText implements encoding.TextMarshaler.
func (t Token) MarshalText() ([]byte, error) { return guard.Token(t).MarshalText() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Token) UnmarshalText(b []byte) error {
	if err := (*guard.Token)(t).UnmarshalText(b); err != nil {
		return fmt.Errorf(`%.40q is not a fencing token; expected a number from 1 to 2^53-1, in decimal digits in a string`, b)
	}
	return nil
}

// Schema implements huma.SchemaProvider.
func (Token) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type:        huma.TypeString,
		Description: "A fencing token: 1 to 2^53-1, in decimal digits.",
		Examples:    []any{"1867776000000001"},
	}
}

// HolderBody is a holder as others see it.
type HolderBody struct {
	Token     Token     `json:"fencing_token"`
	Holder    string    `json:"holder" doc:"Public handle of the holder's session; cannot be used to act on it."`
	Label     string    `json:"label"`
	Since     time.Time `json:"since"`
	ExpiresIn Duration  `json:"expires_in" doc:"When the session ends unless it is renewed."`
	Shared    bool      `json:"shared"`
	Slot      uint32    `json:"slot"`
	Breaking  bool      `json:"breaking" doc:"The holder was asked to let go and has not done so yet."`
	Grade     string    `json:"grade" enum:"advisory,delayed,claimed" doc:"What stands between a holder that is late and the resource, in the holder's own word: a guard that it claims before it acts, a lock-delay, or the lease alone."`
	// RideThrough is set for a lease that may ride.
	RideThrough *Duration `json:"ride_through,omitempty" doc:"How long after its last renewal the holder may go on without an answer. Absent: to its deadline."`
	Identity    string    `json:"identity,omitempty" doc:"Who the holder is, where callers prove that; the label is what it says itself."`
}

// HolderOf is a holder as the link has it.
func HolderOf(h *linkpb.Holder) HolderBody {
	return HolderBody{
		Token:       Token(h.GetToken()),
		Holder:      h.GetHolder(),
		Label:       h.GetLabel(),
		Since:       time.Unix(0, h.GetSinceUnixNano()).UTC(),
		ExpiresIn:   Duration(max(time.Duration(h.GetExpiresInNano()), 0).Round(time.Millisecond)),
		Shared:      h.GetShared(),
		Slot:        h.GetSlot(),
		Breaking:    h.GetBreaking(),
		Grade:       gradeOf(h.GetGrade()),
		Identity:    h.GetIdentity(),
		RideThrough: unlessZero(Duration(h.GetRideThroughNano())),
	}
}

// gradeOf is a grade in a word; a server that knows of none says nothing of guards.
func gradeOf(g linkpb.Grade) string {
	switch g {
	case linkpb.Grade_GRADE_CLAIMED:
		return locktable.Claimed.String()
	case linkpb.Grade_GRADE_DELAYED:
		return locktable.Delayed.String()
	}
	return locktable.Advisory.String()
}

// WaiterBody is a waiter in a queue, in the order of the queue.
type WaiterBody struct {
	Holder string `json:"holder" doc:"Public handle of the waiter's session; empty: it will have one of its own."`
	Label  string `json:"label"`
	Shared bool   `json:"shared"`
	// Identity is as a holder's.
	Identity string `json:"identity,omitempty"`
}

// LockBody is a name that is held, waited for, or closed.
type LockBody struct {
	Name string `json:"name"`
	// Slots and SlotsInUse are 0 for a name that is used as a lock.
	Slots      uint32       `json:"slots" doc:"How many slots the name has; 0: it is used as a lock."`
	SlotsInUse uint32       `json:"slots_in_use" doc:"How many of them have a holder."`
	Value      Bytes        `json:"value" doc:"Value of the first holder."`
	ClosedFor  Duration     `json:"closed_for" doc:"What is left of a lock-delay: so long nobody is granted the name but for shared leases."`
	ClaimOnly  Duration     `json:"claim_only_for" doc:"So long the name is closed to acquires that do not claim: a lease that rides through outages ended unreleased, and its holder may be going on."`
	Holders    []HolderBody `json:"holders" nullable:"false"`
	Waiters    []WaiterBody `json:"waiters" nullable:"false"`
}

// LockOf is a name of a listing as the link has it.
func LockOf(l *linkpb.Lock) LockBody {
	b := LockBody{
		Name: l.GetName(), Slots: l.GetSlots(), SlotsInUse: l.GetInUse(), Value: l.GetValue(),
		ClosedFor: roundUp(time.Duration(l.GetClosedForNano())), ClaimOnly: roundUp(time.Duration(l.GetClaimOnlyNano())),
		Holders: []HolderBody{}, Waiters: []WaiterBody{},
	}
	for _, h := range l.GetHolders() {
		b.Holders = append(b.Holders, HolderOf(h))
	}
	for _, w := range l.GetWaiters() {
		b.Waiters = append(b.Waiters, WaiterBody{Holder: w.GetHolder(), Label: w.GetLabel(), Shared: w.GetShared(), Identity: w.GetIdentity()})
	}
	return b
}

// unlessZero leaves out what is 0.
func unlessZero(d Duration) *Duration {
	if d <= 0 {
		return nil
	}
	return &d
}

// roundUp leaves whole milliseconds, so that asking again after them is not too early.
func roundUp(d time.Duration) Duration {
	return Duration((max(d, 0) + time.Millisecond - 1).Truncate(time.Millisecond))
}

// pageToken hides that a page goes on after a name, so that nobody builds one.
func pageToken(after string) string { return base64.RawURLEncoding.EncodeToString([]byte(after)) }

func readPageToken(s string) (string, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return "", fmt.Errorf("the page_token is none of ours; expected the next_page_token of the page before")
	}
	return string(b), nil
}
