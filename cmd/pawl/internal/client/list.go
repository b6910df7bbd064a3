package client

import (
	"context"
	"fmt"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/bounds"
)

// List visits every page. Their names ascend, or a server that goes on for ever would
// be listened to for ever.
func (c *Client) List(ctx context.Context, q *linkpb.ListRequest, each func(rest.LockBody) error) error {
	for last := ""; ; {
		var page *linkpb.ListResponse
		err := c.Read(ctx, 0, func(ctx context.Context, l linkpb.LinkClient, _ bool) (err error) {
			page, err = l.List(ctx, q)
			return err
		})
		if err != nil {
			return err
		}
		if n := len(page.GetLocks()); n > bounds.PageMax {
			return fmt.Errorf("%s answers with %d names on a page; at most %d were expected", c.served, n, bounds.PageMax)
		}
		for _, l := range page.GetLocks() {
			if l.GetName() <= last {
				return fmt.Errorf("%s answers with the name %s after %s", c.served, output.Text(l.GetName()), output.Text(last))
			}
			last = l.GetName()
			if err := each(rest.LockOf(l)); err != nil {
				return err
			}
		}
		before := q.PageToken
		switch q.PageToken = page.GetNextPageToken(); {
		case q.PageToken == "":
			return nil
		case q.PageToken == before:
			return fmt.Errorf("%s answers with the same page again", c.served)
		}
	}
}
