package objguard_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

// A balance in an object. With a real store the bucket is that of s3bucket, and the fences
// are those of leases.
func Example() {
	ctx := context.Background()
	g := objguard.New(&buckettest.Memory{}, "guards/")
	old := guard.Fence{Resource: "orders/7", Token: 41, Cell: "default-6ce356a4db8c0116"}
	young := old
	young.Token = 42

	add := func(p *objguard.Pointer, f guard.Fence, amount int) error {
		return p.Update(ctx, f, func(data []byte) ([]byte, error) {
			balance := 100
			if len(data) > 0 {
				if _, err := fmt.Sscan(string(data), &balance); err != nil {
					return nil, err
				}
			}
			return fmt.Append(nil, balance+amount), nil
		})
	}
	a, b := g.Pointer("orders/7"), g.Pointer("orders/7")
	if err := a.Claim(ctx, old); err != nil {
		log.Fatal(err)
	}
	// The first holder pauses. Its lease ends, and the next one is granted.
	if err := b.Claim(ctx, young); err != nil {
		log.Fatal(err)
	}
	if err := add(b, young, 20); err != nil {
		log.Fatal(err)
	}
	// The first one wakes up.
	err := add(a, old, 10)
	fmt.Println(errors.Is(err, guard.ErrStale), err)

	data, err := b.Read(ctx)
	fmt.Println(string(data), err)
	// Output:
	// true guard: stale fencing token 41 for "orders/7", which has seen 42
	// 120 <nil>
}

// Two files change at once, or not at all.
func ExamplePointer_Commit() {
	ctx := context.Background()
	p := objguard.New(&buckettest.Memory{}, "guards/").Pointer("site")
	f := guard.Fence{Resource: "site", Token: 42, Cell: "default-6ce356a4db8c0116"}
	if err := p.Claim(ctx, f); err != nil {
		log.Fatal(err)
	}
	err := p.Commit(ctx, f, objguard.Changes{Put: map[string]objguard.Upload{
		"index.html": objguard.Bytes([]byte("<p>new")),
		"style.css":  objguard.Bytes([]byte("p{}")),
	}})
	if err != nil {
		log.Fatal(err)
	}
	s, err := p.Snapshot(ctx)
	fmt.Println(s.Names(), s.State().Seen, err)
	// Output: [index.html style.css] 42 <nil>
}

// Records that are appended to, each once.
func ExampleLog() {
	ctx := context.Background()
	l := objguard.New(&buckettest.Memory{}, "guards/").Log("events")
	f := guard.Fence{Resource: "events", Token: 42, Cell: "default-6ce356a4db8c0116"}
	if err := l.Claim(ctx, f); err != nil { // the first slot is the claim's
		log.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if _, err := l.Append(ctx, f, []byte(text)); err != nil {
			log.Fatal(err)
		}
	}
	page, err := l.Read(ctx, 0)
	for _, r := range page.Records {
		fmt.Println(r.Slot, string(r.Data))
	}
	fmt.Println(page.Next, err)
	// Output:
	// 2 one
	// 3 two
	// 4 <nil>
}
