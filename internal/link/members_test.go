package link

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/service"
)

// roster is members of a test.
type roster struct{ names []string }

func (r *roster) Members(context.Context) ([]service.Member, error) {
	var all []service.Member
	for _, name := range r.names {
		all = append(all, service.Member{Name: name, Role: service.RoleVoter})
	}
	return all, nil
}

func (r *roster) AddMember(_ context.Context, name, _, _ string) error {
	r.names = append(r.names, name)
	return nil
}

func (r *roster) RemoveMember(_ context.Context, name string) error {
	if name == "away" {
		return &service.NotNowError{Err: errors.New("no majority")}
	}
	i := slices.Index(r.names, name)
	if i < 0 {
		return errors.New("no such member")
	}
	r.names = slices.Delete(r.names, i, i+1)
	return nil
}

func TestMembersAreForTheAdminOfAllNames(t *testing.T) {
	grants := map[string][]access.Grant{
		"root":  {{Prefix: "", Rights: []access.Right{access.Admin}}},
		"chief": {{Prefix: "a/", Rights: []access.Right{access.Admin}}},
		"user":  {{Prefix: "", Rights: []access.Right{access.Read, access.Hold, access.Break}}},
	}
	synctest.Test(t, func(t *testing.T) {
		members := &roster{names: []string{"n1"}}
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, grants)), Roster: members})
		calls := map[string]func(context.Context) error{
			"list": func(ctx context.Context) error {
				_, err := c.MemberList(ctx, &linkpb.MemberListRequest{})
				return err
			},
			"add": func(ctx context.Context) error {
				_, err := c.MemberAdd(ctx, &linkpb.MemberAddRequest{Name: "n2", Url: "http://b:1"})
				return err
			},
			"remove": func(ctx context.Context) error {
				_, err := c.MemberRemove(ctx, &linkpb.MemberRemoveRequest{Name: "n1"})
				return err
			},
		}
		for what, call := range calls {
			for _, who := range []string{"chief", "user"} {
				if got := status.Code(call(as(t.Context(), who))); got != codes.PermissionDenied {
					t.Errorf("%s by %s: %v", what, who, got)
				}
			}
		}
		if !slices.Equal(members.names, []string{"n1"}) {
			t.Fatalf("the members are %q", members.names)
		}
		root := as(t.Context(), "root")
		a, err := c.MemberAdd(root, &linkpb.MemberAddRequest{Name: "n2", Url: "http://b:1"})
		if err != nil || len(a.Members) != 2 || a.Members[1].Name != "n2" || a.Members[1].Role != service.RoleVoter {
			t.Errorf("add: %v %v", a, err)
		}
		if _, err := c.MemberRemove(root, &linkpb.MemberRemoveRequest{Name: "n9"}); status.Code(err) != codes.Aborted {
			t.Errorf("remove what is no member: %v", err)
		}
		if _, err := c.MemberRemove(root, &linkpb.MemberRemoveRequest{Name: "away"}); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "no majority" {
			t.Errorf("remove while there is no majority: %v", err)
		}
		if b, err := c.MemberRemove(root, &linkpb.MemberRemoveRequest{Name: "n1"}); err != nil || len(b.Members) != 1 {
			t.Errorf("remove: %v %v", b, err)
		}

		alone := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, grants))})
		if _, err := alone.MemberList(root, &linkpb.MemberListRequest{}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("list where the store has no members: %v", err)
		}
	})
}
