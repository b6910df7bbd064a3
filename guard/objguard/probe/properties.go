package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
)

func reads(ctx context.Context, p *prober) (string, error) {
	for range p.o.Rounds {
		key := p.key("reads")
		tag, err := p.put(ctx, key, "first", objguard.IfAbsent())
		if err != nil {
			return "", err
		}
		if text, got, err := p.get(ctx, key); err != nil || text != "first" || got != tag {
			return fmt.Sprintf("created with ETag %s, read was %q with %s (%v)", tag, text, got, err), nil
		}
		if tag, err = p.put(ctx, key, "second", objguard.IfETag(tag)); err != nil {
			return fmt.Sprintf("the version that was read is refused: %v", err), nil
		}
		if text, got, err := p.get(ctx, key); err != nil || text != "second" || got != tag {
			return fmt.Sprintf("replaced with ETag %s, read was %q with %s (%v)", tag, text, got, err), nil
		}
		keys, _, err := p.buckets[len(p.buckets)-1].List(ctx, key, "")
		if err != nil {
			return "", err
		}
		if !slices.Contains(keys, key) {
			return "an object is missing in a listing", nil
		}
		if keys, _, err = p.buckets[0].List(ctx, key, key); err != nil {
			return "", err
		}
		if slices.Contains(keys, key) {
			return "a listing that begins after a key shows it again", nil
		}
	}
	return "", nil
}

// bogus is an ETag that no object has.
const bogus = `"00000000000000000000000000000bad"`

func conditions(ctx context.Context, p *prober) (string, error) {
	key := p.key("conditions")
	first, err := p.put(ctx, key, "first", objguard.IfAbsent())
	if err != nil {
		return "", err
	}
	second, err := p.put(ctx, key, "second", objguard.IfETag(first))
	if err != nil {
		return "", err
	}
	for _, c := range []struct {
		what string
		c    objguard.Condition
	}{
		{"a create of what exists", objguard.IfAbsent()},
		{"a write that expects an older version", objguard.IfETag(first)},
		{"a write that expects a version that never was", objguard.IfETag(bogus)},
	} {
		_, err := p.put(ctx, key, "third", c.c)
		switch {
		case err == nil:
			return c.what + " was accepted", nil
		case !refused(err):
			return "", err
		}
	}
	if text, tag, err := p.get(ctx, key); err != nil || text != "second" || tag != second {
		return fmt.Sprintf("what was refused took effect: %q (%v)", text, err), nil
	}
	return "", nil
}

func created(ctx context.Context, p *prober) (string, error) {
	return p.rounds(ctx, func(ctx context.Context) (string, error) {
		key := p.key("create")
		return p.race(ctx, key, p.laps(p.o.Racers, key, objguard.IfAbsent()))
	})
}

func replaced(ctx context.Context, p *prober) (string, error) {
	return p.rounds(ctx, func(ctx context.Context) (string, error) {
		key := p.key("replace")
		tag, err := p.put(ctx, key, "first", objguard.IfAbsent())
		if err != nil {
			return "", err
		}
		return p.race(ctx, key, p.laps(p.o.Racers, key, objguard.IfETag(tag)))
	})
}

func gone(ctx context.Context, p *prober) (string, error) {
	key := p.key("gone")
	tag, err := p.put(ctx, key, "first", objguard.IfAbsent())
	if err != nil {
		return "", err
	}
	if err := p.buckets[0].Delete(ctx, key); err != nil {
		return "", err
	}
	if _, err = p.put(ctx, key, "second", objguard.IfETag(tag)); err == nil {
		return "an object that was deleted was overwritten", nil
	}
	if !refused(err) {
		return "", err
	}
	return "", nil
}

// newTags writes bodies of one length as fast as it can: a store that makes its ETags of
// length and time gives two of them the same.
func newTags(ctx context.Context, p *prober) (string, error) {
	key := p.key("tags")
	tag, err := p.put(ctx, key, "body 0000", objguard.IfAbsent())
	if err != nil {
		return "", err
	}
	seen := map[string]bool{tag: true}
	for i := range 2 * p.o.Racers {
		if tag, err = p.put(ctx, key, fmt.Sprintf("body %04d", i+1), objguard.IfETag(tag)); err != nil {
			return fmt.Sprintf("the ETag of the last write is refused: %v", err), nil
		}
		if seen[tag] {
			return fmt.Sprintf("two bodies of the same length have the ETag %s", tag), nil
		}
		seen[tag] = true
	}
	return "", nil
}

// resolved cuts writes off before their answer, and repeats them.
func resolved(ctx context.Context, p *prober) (string, error) {
	b, ok := p.buckets[0].(Cutter)
	if !ok {
		return "", errors.New("the bucket cannot cut a connection")
	}
	for i := range p.o.Rounds {
		key, text := p.key("cut"), fmt.Sprintf("cut %d", i)
		if err := b.PutUnanswered(ctx, key, bytes.NewReader([]byte(text)), int64(len(text)), objguard.IfAbsent()); err != nil && !errors.Is(err, guard.ErrUnknown) {
			return "", err
		}
		_, err := p.put(ctx, key, text, objguard.IfAbsent())
		if err != nil && !refused(err) {
			return "", err
		}
		if got, _, err := p.get(ctx, key); err != nil || got != text {
			return fmt.Sprintf("a write was cut off and repeated, and the object is %q (%v)", got, err), nil
		}
	}
	return "", nil
}

func otherTags(ctx context.Context, p *prober) (string, error) {
	key := p.key("same")
	first, err := p.put(ctx, key, "a", objguard.IfAbsent())
	if err != nil {
		return "", err
	}
	second, err := p.put(ctx, key, "b", objguard.IfETag(first))
	if err != nil {
		return "", err
	}
	third, err := p.put(ctx, key, "a", objguard.IfETag(second))
	if err != nil {
		return "", err
	}
	if third == first {
		return "the first body came back with its ETag", nil
	}
	return "", nil
}

func parts(ctx context.Context, p *prober) (string, error) {
	b, ok := p.buckets[0].(Parter)
	if !ok {
		return "", errors.New("the bucket uploads nothing in parts")
	}
	return p.rounds(ctx, func(ctx context.Context) (fault string, err error) {
		key := p.key("parts")
		// Few of them upload in parts: each is three requests.
		laps := p.laps(p.o.Racers/2, key, objguard.IfAbsent())
		for i := range max(p.o.Racers/8, 2) {
			text := fmt.Sprintf("upload %04d", i)
			complete, abort, err := b.PutParts(ctx, key, []byte(text), objguard.IfAbsent())
			if err != nil {
				return "", err
			}
			laps = append(laps, lap{text, func(ctx context.Context) error {
				err := complete(ctx)
				if err != nil {
					// The store forgets it by and by, whether it is told or not.
					_ = abort(ctx)
				}
				return err
			}})
		}
		return p.race(ctx, key, laps)
	})
}

func deletes(ctx context.Context, p *prober) (string, error) {
	b, ok := p.buckets[0].(DeleterIf)
	if !ok {
		return "", errors.New("the bucket deletes nothing under a condition")
	}
	key := p.key("delete")
	if _, err := p.put(ctx, key, "first", objguard.IfAbsent()); err != nil {
		return "", err
	}
	if err := b.DeleteIf(ctx, key, bogus); err == nil {
		return "a delete that expects a version that never was is accepted", nil
	} else if !refused(err) {
		return "", err
	}
	return p.rounds(ctx, func(ctx context.Context) (string, error) {
		key := p.key("delete")
		tag, err := p.put(ctx, key, "first", objguard.IfAbsent())
		if err != nil {
			return "", err
		}
		laps := p.laps(p.o.Racers/2, key, objguard.IfETag(tag))
		for range p.o.Racers / 2 {
			laps = append(laps, lap{"", func(ctx context.Context) error { return b.DeleteIf(ctx, key, tag) }})
		}
		return p.race(ctx, key, laps)
	})
}
