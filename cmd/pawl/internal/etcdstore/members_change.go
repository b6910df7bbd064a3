package etcdstore

import (
	"context"
	"errors"
	"fmt"
)

// dismiss removes a member by its name for good: it may not join again. It fails where
// the others would be too few without it.
func (q *Quorum) dismiss(ctx context.Context, name string) error {
	x := expected{Name: name, Removed: true}
	if was, known := q.peers.expects(q.etcd, name); known {
		x.URL = was.URL
	}
	// First the note: a member that removes itself can write none afterwards.
	if err := putExpected(ctx, q.etcd, x); err != nil {
		return fmt.Errorf("note that %s was removed: %w", name, err)
	}
	for _, m := range membersOf(q.etcd) {
		if m.Name != name {
			continue
		}
		if err := removeMember(ctx, q.etcd, m.ID); err != nil {
			was := expected{Name: name, URL: m.URL}
			return errors.Join(err, putExpected(context.WithoutCancel(ctx), q.etcd, was))
		}
	}
	return nil
}
