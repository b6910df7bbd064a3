package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
)

const (
	roundsDefault = 20
	racersDefault = 32
	// conflictTries is how often a racer repeats what the store did not decide.
	conflictTries = 20
	// firstMax bounds the first write: a store that hangs is told soon.
	firstMax = 15 * time.Second
	// cleanMax bounds the deletion of what the probe wrote.
	cleanMax = 10 * time.Second
)

// prober is a probe that runs.
type prober struct {
	buckets []objguard.Bucket
	prefix  string
	o       Options
	keys    int
}

// Run tries a store and returns what it found. More than one bucket are several ways to
// the same one, such as two endpoints of a cluster: racers use them in turn. It ends when
// ctx does, with an error; it also fails when the store does not let it write or clean up. The
// report then holds what was tried.
func Run(ctx context.Context, buckets []objguard.Bucket, prefix string, o Options) (report Report, err error) {
	if len(buckets) == 0 {
		return nil, errors.New("probe: no bucket")
	}
	for _, name := range o.Need {
		if !slices.Contains(Needable(), name) {
			return nil, fmt.Errorf("probe: %q is no property that can be needed", name)
		}
	}
	if o.Rounds <= 0 {
		o.Rounds = roundsDefault
	}
	if o.Racers <= 0 {
		o.Racers = racersDefault
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	p := &prober{buckets: buckets, prefix: prefix + "pawl-probe-" + rand.Text() + "/", o: o}
	if err := p.first(ctx); err != nil {
		return nil, fmt.Errorf("probe: the first write: %w", err)
	}
	defer func() { err = errors.Join(err, p.clean(ctx)) }()
	for _, property := range properties {
		fault, err := property.try(ctx, p)
		if ctx.Err() != nil {
			return report, fmt.Errorf("probe: %q was not finished: %w", property.name, context.Cause(ctx))
		}
		report = append(report, property.result(property.needed || slices.Contains(o.Need, property.name), fault, err))
	}
	return report, nil
}

// first writes a first object. It cleans up after itself where something may have been
// written.
func (p *prober) first(ctx context.Context) error {
	within, cancel := context.WithTimeoutCause(ctx, firstMax, fmt.Errorf("no answer within %v", firstMax))
	defer cancel()
	_, err := p.put(within, p.key("first"), "first", objguard.IfAbsent())
	if errors.Is(err, guard.ErrUnknown) || errors.Is(err, objguard.ErrConflict) {
		_ = p.clean(ctx) // the error of the write tells more
	}
	return err
}

// clean deletes what lies below the probe's own prefix.
func (p *prober) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanMax)
	defer cancel()
	b, after := p.buckets[0], ""
	for {
		keys, more, err := b.List(ctx, p.prefix, after)
		if err != nil {
			return fmt.Errorf("probe: clean up %s: %w", p.prefix, err)
		}
		for _, key := range keys {
			if err := b.Delete(ctx, key); err != nil {
				return fmt.Errorf("probe: clean up %s: %w", p.prefix, err)
			}
			after = key
		}
		if !more || len(keys) == 0 {
			return nil
		}
	}
}

// key is a key that was not used yet.
func (p *prober) key(what string) string {
	p.keys++
	return fmt.Sprintf("%s%s-%d", p.prefix, what, p.keys)
}

func (p *prober) put(ctx context.Context, key, text string, c objguard.Condition) (string, error) {
	return putTo(ctx, p.buckets[0], key, text, c)
}

func putTo(ctx context.Context, b objguard.Bucket, key, text string, c objguard.Condition) (etag string, err error) {
	body := []byte(text)
	for range conflictTries {
		etag, err = b.Put(ctx, key, bytes.NewReader(body), int64(len(body)), c)
		if !errors.Is(err, objguard.ErrConflict) {
			break
		}
	}
	return etag, err
}

func (p *prober) get(ctx context.Context, key string) (text, etag string, err error) {
	o, err := p.buckets[len(p.buckets)-1].Get(ctx, key)
	if err != nil {
		return "", "", err
	}
	defer o.Body.Close()
	b, err := io.ReadAll(io.LimitReader(o.Body, readMax))
	return string(b), o.ETag, err
}

// readMax is more than the probe writes into one object, in bytes.
const readMax = 1 << 16

// refused reports whether a write was refused by its condition.
func refused(err error) bool {
	return errors.Is(err, objguard.ErrPrecondition) || errors.Is(err, objguard.ErrNotFound)
}

// lap is one writer of a race: what it does, and the text that the object has when it
// wins; empty: it deletes it.
type lap struct {
	text string
	run  func(ctx context.Context) error
}

// race starts all laps at once and returns what is wrong with their answers: it has one
// winner, and the object is the winner's. All deletes count as one: to delete what is
// gone is no error.
func (p *prober) race(ctx context.Context, key string, laps []lap) (fault string, err error) {
	errs := make([]error, len(laps))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, l := range laps {
		wg.Go(func() {
			<-start
			errs[i] = l.run(ctx)
		})
	}
	close(start)
	wg.Wait()
	var won []int
	unknown := 0 // writers without an answer
	for i, err := range errs {
		switch {
		case err == nil && laps[i].text == "" && len(won) > 0 && laps[won[len(won)-1]].text == "":
		case err == nil:
			won = append(won, i)
		case errors.Is(err, guard.ErrUnknown), errors.Is(err, objguard.ErrConflict):
			unknown++
		case !refused(err):
			return "", err
		}
	}
	switch {
	case len(won) > 1:
		return fmt.Sprintf("%d of %d writers won", len(won), len(laps)), nil
	case len(won) == 0 && unknown == 0:
		return fmt.Sprintf("none of %d writers won", len(laps)), nil
	case len(won) == 0:
		return "", fmt.Errorf("%d of %d writers had no answer", unknown, len(laps))
	case 2*unknown > len(laps):
		// A store that turns most of them away has not shown what it does when they race.
		return "", fmt.Errorf("%d of %d writers had no answer, too many for a race", unknown, len(laps))
	}
	text, _, err := p.get(ctx, key)
	switch want := laps[won[0]].text; {
	case want == "" && errors.Is(err, objguard.ErrNotFound):
	case want == "" && err == nil:
		return "the delete won, and the object is there", nil
	case errors.Is(err, objguard.ErrNotFound):
		return "the object is gone that a writer won", nil
	case err != nil:
		return "", err
	case text != want:
		return "the object is not the winner's", nil
	}
	return "", nil
}

// rounds runs races until one shows a fault, and says in which it was.
func (p *prober) rounds(ctx context.Context, one func(context.Context) (string, error)) (string, error) {
	for i := range p.o.Rounds {
		fault, err := one(ctx)
		if err != nil {
			return "", err
		}
		if fault != "" {
			return fmt.Sprintf("race %d: %s", i+1, fault), nil
		}
	}
	return "", nil
}

// laps are writers that put under a condition, each over the next bucket.
func (p *prober) laps(n int, key string, c objguard.Condition) []lap {
	laps := make([]lap, n)
	for i := range laps {
		text, b := fmt.Sprintf("writer %04d", i), p.buckets[i%len(p.buckets)]
		laps[i] = lap{text, func(ctx context.Context) error {
			_, err := putTo(ctx, b, key, text, c)
			return err
		}}
	}
	return laps
}
