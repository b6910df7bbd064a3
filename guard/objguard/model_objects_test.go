package objguard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
)

const (
	objectsFolder = "g/orders=2F7/objects/"
	pointerKey    = "g/orders=2F7/pawl=pointer"
)

// landVersion looks at a version of the pointer that has taken effect.
func (p *play) landVersion(op int, body []byte) {
	var h struct {
		Version uint64
		Token   guard.Token `json:"fencing_token"`
		Objects map[string]string
	}
	line, text, _ := bytes.Cut(body, []byte{'\n'})
	if err := json.Unmarshal(line, &h); err != nil {
		p.fault("the pointer: %w", err)
	}
	last := landed{}
	if len(p.versions) > 0 {
		last = p.versions[len(p.versions)-1]
	}
	switch {
	case h.Version != uint64(len(p.versions))+1:
		p.fault("version %d took effect after %d", h.Version, len(p.versions))
	case h.Token != p.told[op].token, h.Token < p.claimed, h.Token < last.token:
		p.fault("version %d has token %d, after %d, and %d had claimed", h.Version, h.Token, last.token, p.claimed)
	}
	p.versions = append(p.versions, landed{op: op, token: h.Token, text: string(text)})
	p.named = map[string]bool{}
	for name, key := range h.Objects {
		p.named[objectsFolder+key] = true
		if _, err := p.Memory.Get(context.Background(), objectsFolder+key); err != nil {
			p.fault("version %d of operation %d names %s: %w", h.Version, op, name, err)
		}
	}
}

// onPointer does some operations of one process.
func onPointer(p *process, seed uint64, token guard.Token) {
	rnd := rand.New(rand.NewPCG(seed, uint64(token)))
	pointer := objguard.New(p, "g").Pointer(resource)
	ctx := context.Background()
	for range 1 + rnd.IntN(4) {
		what := []string{"update", "commit", "commit", "claim", "sweep"}[rnd.IntN(5)]
		text := p.begin(what, token)
		var err error
		switch what {
		case "update":
			err = pointer.Update(ctx, holder(token), sets(text))
		case "commit":
			c := put([]string{"a", "b"}[rnd.IntN(2)], fmt.Sprintf("c%d", rnd.IntN(2)))
			c.Remove = []string{"d"}
			err = pointer.Commit(ctx, holder(token), c)
		case "claim":
			err = pointer.Claim(ctx, holder(token))
		case "sweep":
			_, err = pointer.Sweep(ctx, holder(token))
		}
		if p.end(0, err) {
			return
		}
	}
}

// judgePointer compares what everybody was told with the versions that there were.
func (p *play) judgePointer() error {
	for op, t := range p.told {
		n := 0
		for _, v := range p.versions {
			if v.op == op {
				n++
			}
		}
		right := n <= 1
		switch {
		case t.crashed, op == 0, errors.Is(t.err, guard.ErrUnknown), t.what == "sweep":
		case t.err == nil:
			right = n == 1 || n == 0 && t.what == "claim"
		default:
			right = n == 0
		}
		if !right || errors.Is(t.err, objguard.ErrReset) || errors.Is(t.err, objguard.ErrForeignObject) {
			p.fault("%s %d of token %d made %d versions, it was told %v", t.what, op, t.token, n, t.err)
		}
	}
	return errors.Join(p.faults...)
}

// Three holders claim, update, commit and sweep at the same time; their writes are lost, late
// and repeated, and some crash. No version names an object that is not there.
func TestPointerOfThreeHolders(t *testing.T) {
	plays := uint64(2000)
	if testing.Short() {
		plays = 500
	}
	outcomes := map[string]int{}
	for seed := range plays {
		synctest.Test(t, func(t *testing.T) {
			p := playOf(seed, onPointer)
			if err := p.judgePointer(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			for _, o := range p.told {
				outcomes[o.what+" "+outcome(o.err)]++
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Log(outcomes)
	for _, o := range []string{"commit done", "commit stale", "commit unknown", "update done", "claim done", "sweep done", "sweep unknown"} {
		if outcomes[o] == 0 {
			t.Errorf("%s: never, %v", o, outcomes)
		}
	}
}
