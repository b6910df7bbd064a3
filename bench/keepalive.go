package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// keptAlive measures what renewals cost etcd: as many leases with the same TTL, kept
// alive by as many clients, each as often as etcd's client does it, which is every
// third of the TTL.
func (f *full) keptAlive(ctx context.Context) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	side, err := f.etcd(ctx, "etcd", 1, f.plan.connections, 0, nil)
	if err != nil {
		return "", err
	}
	var opening, all sync.WaitGroup
	var renewals atomic.Int64
	per := f.plan.sessions / f.plan.connections
	for _, c := range side.clients {
		opening.Go(func() {
			for range per {
				granted, err := c.Grant(ctx, int64(sessionsTTL/time.Second))
				if err != nil {
					cancel(err)
					return
				}
				answers, err := c.KeepAlive(ctx, granted.ID)
				if err != nil {
					cancel(err)
					return
				}
				all.Go(func() {
					for range answers {
						renewals.Add(1)
					}
					if ctx.Err() == nil {
						cancel(fmt.Errorf("etcd's lease %x was lost", granted.ID))
					}
				})
			}
		})
	}
	opening.Wait()
	if err := pause(ctx, f.plan.settle); err != nil {
		return "", err
	}
	cores, rate, err := watch(ctx, side.servers.members[0], &renewals, f.plan.steady)
	if err != nil {
		return "", err
	}
	cancel(nil)
	all.Wait()
	return fmt.Sprintf("etcd with %d leases of the same TTL, kept alive by %d clients: %.3f cores, %.1f µs for each of %.0f renewals a second.",
		per*f.plan.connections, f.plan.connections, cores, cores/rate*1e6, rate), nil
}
