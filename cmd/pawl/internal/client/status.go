package client

import (
	"context"
	"slices"

	"github.com/pawlproject/pawl/api/linkpb"
)

// Status asks for the active server's word, and makes do with another's when
// that cannot be had.
func (c *Client) Status(ctx context.Context) (*linkpb.StatusResponse, error) {
	var a *linkpb.StatusResponse
	status := func(ctx context.Context, l linkpb.LinkClient, _ bool) (err error) {
		a, err = l.Status(ctx, &linkpb.StatusRequest{})
		return err
	}
	if err := c.Read(ctx, 0, status); err != nil || a.GetActive() {
		return a, err
	}
	said, others := a, c.without(c.served)
	if to := said.GetActiveLink(); to != "" && !slices.Contains(others, to) {
		others = slices.Insert(others, 0, to)
	}
	for _, server := range others {
		one := Target{servers: []string{server}, How: c.How}.Client()
		asking, cancel := context.WithTimeout(ctx, 2*silentMax)
		err := one.Read(asking, 0, status)
		cancel()
		one.Close()
		if err == nil && a.GetActive() {
			return a, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return said, nil
}
