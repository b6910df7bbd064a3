package etcdtest

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Root is the administrator that Guard makes, and its password.
const Root, RootPassword = "root", "of all evil"

// Guard switches etcd's own authentication on, with an administrator and one
// user that may read and write below a prefix and nothing else.
func (c *Cluster) Guard(t testing.TB, user, password, prefix string) {
	t.Helper()
	client, err := c.Client("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, done := context.WithTimeout(t.Context(), readyMax)
	defer done()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(client.RoleAdd(ctx, "root"))
	must(client.UserAdd(ctx, Root, RootPassword))
	must(client.UserGrantRole(ctx, Root, "root"))
	must(client.RoleAdd(ctx, "pawl"))
	must(client.RoleGrantPermission(ctx, "pawl", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(client.UserAdd(ctx, user, password))
	must(client.UserGrantRole(ctx, user, "pawl"))
	must(client.AuthEnable(ctx))
}
