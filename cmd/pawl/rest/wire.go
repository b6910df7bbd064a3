package rest

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

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
}

func holderBody(h locktable.Holder) HolderBody {
	return HolderBody{
		Token:     Token(h.Token),
		Holder:    h.Handle,
		Label:     h.Label,
		Since:     h.Since.UTC(),
		ExpiresIn: Duration(max(h.ExpiresIn, 0).Round(time.Millisecond)),
		Shared:    h.Shared,
		Slot:      h.Slot,
		Breaking:  h.Breaking,
	}
}

// WaiterBody is a waiter in a queue, in the order of the queue.
type WaiterBody struct {
	Holder string `json:"holder" doc:"Public handle of the waiter's session."`
	Label  string `json:"label"`
}

// LockBody is a name that is held or waited for.
type LockBody struct {
	Name    string       `json:"name"`
	Holders []HolderBody `json:"holders" nullable:"false"`
	Waiters []WaiterBody `json:"waiters" nullable:"false"`
}

func lockBody(l locktable.Lock) LockBody {
	b := LockBody{Name: l.Name, Holders: []HolderBody{}, Waiters: []WaiterBody{}}
	for _, h := range l.Holders {
		b.Holders = append(b.Holders, holderBody(h))
	}
	for _, w := range l.Waiters {
		b.Waiters = append(b.Waiters, WaiterBody{Holder: w.Handle, Label: w.Label})
	}
	return b
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
