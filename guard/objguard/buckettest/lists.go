package buckettest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/objguard"
)

// Lists are the ways to keep a list of texts in a bucket, for guardtest: in a pointer
// ("update"), in committed objects ("commit"), in a log ("log"). lose makes the next
// write's answer get lost, see [guardtest.Resource].
func Lists(g objguard.Guard, lose func(landed bool)) map[string]guardtest.Resource {
	return map[string]guardtest.Resource{"update": updated(g, lose), "commit": committed(g, lose), "log": logged(g, lose)}
}

func isBusy(err error) bool { return errors.Is(err, objguard.ErrBusy) }

func updated(g objguard.Guard, lose func(bool)) guardtest.Resource {
	return guardtest.Resource{
		Claim: g.Claim,
		Append: func(ctx context.Context, f guard.Fence, text string) error {
			return g.Pointer(f.Resource).Update(ctx, f, adds(text))
		},
		Read: func(ctx context.Context, resource string) ([]string, error) {
			data, err := g.Pointer(resource).Read(ctx)
			if err != nil {
				return nil, err
			}
			var texts []string
			for line := range strings.Lines(string(data)) {
				text, err := strconv.Unquote(strings.TrimSpace(line))
				if err != nil {
					return nil, err
				}
				texts = append(texts, text)
			}
			return texts, nil
		},
		Seen: g.Seen, LoseAnswer: lose, Resolves: true, Busy: isBusy,
	}
}

// adds adds a line that holds text.
func adds(text string) func([]byte) ([]byte, error) {
	return func(old []byte) ([]byte, error) { return append(old, strconv.Quote(text)+"\n"...), nil }
}

// committed keeps each text in an object of its own and their order in the pointer.
func committed(g objguard.Guard, lose func(bool)) guardtest.Resource {
	order := func(data []byte) (names []string, err error) {
		if len(data) > 0 {
			err = json.Unmarshal(data, &names)
		}
		return names, err
	}
	return guardtest.Resource{
		Claim: g.Claim,
		Append: func(ctx context.Context, f guard.Fence, text string) error {
			name := fmt.Sprintf("%s of %d", text, f.Token)
			return g.Pointer(f.Resource).Commit(ctx, f, objguard.Changes{
				Put: map[string]objguard.Upload{name: objguard.Bytes([]byte(text))},
				Data: func(old []byte) ([]byte, error) {
					names, err := order(old)
					if err != nil {
						return nil, err
					}
					return json.Marshal(append(names, name))
				},
			})
		},
		Read: func(ctx context.Context, resource string) ([]string, error) {
			s, err := g.Pointer(resource).Snapshot(ctx)
			if err != nil {
				return nil, err
			}
			names, err := order(s.Data())
			if err != nil {
				return nil, err
			}
			var texts []string
			for _, name := range names {
				o, err := s.Open(ctx, name)
				if err != nil {
					return nil, err
				}
				text, err := io.ReadAll(o.Body)
				if err := errors.Join(err, o.Body.Close()); err != nil {
					return nil, err
				}
				texts = append(texts, string(text))
			}
			return texts, nil
		},
		Seen: g.Seen, LoseAnswer: lose, Resolves: true, Busy: isBusy,
	}
}

func logged(g objguard.Guard, lose func(bool)) guardtest.Resource {
	return guardtest.Resource{
		Claim: func(ctx context.Context, f guard.Fence) error { return g.Log(f.Resource).Claim(ctx, f) },
		Append: func(ctx context.Context, f guard.Fence, text string) error {
			_, err := g.Log(f.Resource).Append(ctx, f, []byte(text))
			return err
		},
		Read: func(ctx context.Context, resource string) ([]string, error) {
			page, err := g.Log(resource).Read(ctx, 0)
			var texts []string
			for _, r := range page.Records {
				texts = append(texts, string(r.Data))
			}
			return texts, err
		},
		Seen: func(ctx context.Context, resource string) (guard.State, error) {
			return g.Log(resource).Seen(ctx, resource)
		},
		LoseAnswer: lose, Resolves: true, Busy: isBusy,
	}
}
