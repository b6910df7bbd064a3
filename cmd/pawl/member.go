package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/service"
)

func newMember() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "member",
		Short: "List and change the servers that keep a cell together",
		Long: `Member is for a cell whose servers keep its store among themselves (pawl serve
--node --peers). A change is carried out by whichever server is asked, and needs
the right admin of all names. docs/quorum.md tells what each loss costs.`,
		Args: flags.Unknown,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMemberList(), newMemberAdd(), newMemberReplace(), newMemberRemove(), newMemberRecover())
	return cmd
}

// memberCommand is a command that asks a server and shows the members as they are then,
// and what comes next; nil: nothing.
func memberCommand(cmd *cobra.Command, next func(args []string, all []*linkpb.Member) string, ask func(ctx context.Context, l linkpb.LinkClient, args []string) ([]*linkpb.Member, error)) *cobra.Command {
	var asJSON bool
	servers := client.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return client.With(cmd, *servers, func(ctx context.Context, c *client.Client) error {
			var all []*linkpb.Member
			err := c.Call(ctx, 0, func(ctx context.Context, l linkpb.LinkClient, _ bool) (err error) {
				all, err = ask(ctx, l, args)
				return err
			})
			if no := exit.RefusalOf(err); no.GetReason() == linkpb.Reason_REASON_CONFLICT || no.GetReason() == linkpb.Reason_REASON_INVALID {
				return exit.Failed(exit.CodeOther, "%s", no.GetMessage())
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				return output.JSON(out, membersBody(all))
			}
			if err := output.Table(out, memberRows(all)); err != nil || next == nil {
				return err
			}
			_, err = fmt.Fprintln(out, "\n"+next(args, all))
			return err
		})
	}
	return cmd
}

func newMemberList() *cobra.Command {
	return memberCommand(&cobra.Command{
		Use:   "list",
		Short: "List the members",
		Long: `List shows each member: whether it is a voter, a learner that catches up, or
expected to join; which one leads the others, and which one answers the server
that was asked.

` + exit.AskHelp,
		Example: "  pawl member list\n  pawl member list --json | jq '.members[] | select(.answers | not)'",
		Args:    flags.None,
	}, nil, func(ctx context.Context, l linkpb.LinkClient, _ []string) ([]*linkpb.Member, error) {
		a, err := l.MemberList(ctx, &linkpb.MemberListRequest{})
		return a.GetMembers(), err
	})
}

func newMemberAdd() *cobra.Command {
	return memberCommand(&cobra.Command{
		Use:   "add NAME=URL",
		Short: "Let a server join",
		Long: `Add lets a server join. It does so when it is started on an empty folder with
--node NAME and, in --peers, itself and any member: it catches up while the others
go on, and then gets its vote. Go on to an odd number of members.

` + exit.AskHelp,
		Example: "  pawl member add n2=https://b.example:7422\n  pawl serve --node n2 --peers n1=https://a.example:7422,n2=https://b.example:7422,n3=https://c.example:7422",
		Args:    flags.Names("NAME=URL"),
	}, func(args []string, all []*linkpb.Member) string {
		return mayJoin(args[0], "", all)
	}, func(ctx context.Context, l linkpb.LinkClient, args []string) ([]*linkpb.Member, error) {
		name, url, err := nameURL(args[0])
		if err != nil {
			return nil, err
		}
		a, err := l.MemberAdd(ctx, &linkpb.MemberAddRequest{Name: name, Url: url})
		return a.GetMembers(), err
	})
}

func newMemberReplace() *cobra.Command {
	return memberCommand(&cobra.Command{
		Use:   "replace OLD NEW=URL",
		Short: "Let a server join for another one",
		Long: `Replace lets a server join in the place of another, which is removed when the new
one has its vote, or before when it does not answer. A member that moves keeps its
name: "pawl member replace n3 n3=URL".

A member that lost its disk needs no command: it joins again when it is started
under its name and address on an empty folder.

` + exit.AskHelp,
		Example: "  pawl member replace n3 n4=https://d.example:7422",
		Args:    flags.Names("OLD", "NEW=URL"),
	}, func(args []string, all []*linkpb.Member) string {
		return mayJoin(args[1], args[0], all)
	}, func(ctx context.Context, l linkpb.LinkClient, args []string) ([]*linkpb.Member, error) {
		name, url, err := nameURL(args[1])
		if err != nil {
			return nil, err
		}
		a, err := l.MemberAdd(ctx, &linkpb.MemberAddRequest{Name: name, Url: url, Replaces: args[0]})
		return a.GetMembers(), err
	})
}

func newMemberRemove() *cobra.Command {
	return memberCommand(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a member for good",
		Long: `Remove removes a member: its server ends, and cannot join again until "pawl member
add" lets it. It is refused where the others would be too few to decide anything:
a majority of those that are left must be up and caught up.

` + exit.AskHelp,
		Example: "  pawl member remove n3",
		Args:    flags.Names("NAME"),
	}, func(args []string, _ []*linkpb.Member) string {
		return output.Text(args[0]) + " is removed: its server ends, and cannot join again before \"pawl member add\""
	}, func(ctx context.Context, l linkpb.LinkClient, args []string) ([]*linkpb.Member, error) {
		a, err := l.MemberRemove(ctx, &linkpb.MemberRemoveRequest{Name: args[0]})
		return a.GetMembers(), err
	})
}

// mayJoin says what to do now that a server may join, in the place of another; "": of
// none.
func mayJoin(joiner, replaces string, all []*linkpb.Member) string {
	name, _, _ := strings.Cut(joiner, "=")
	peers := ""
	for _, m := range all {
		if m.GetName() != name && m.GetName() != replaces && m.GetRole() != service.RoleExpected {
			peers += m.GetName() + "=" + m.GetUrl() + ","
		}
	}
	start := fmt.Sprintf("on an empty folder, with the other flags as its neighbours have them:\n  pawl serve --node %s --peers %s", output.Text(name), output.Text(peers+joiner))
	const tell = "Put the address of the new server into PAWL_SERVERS of the clients: they know no other way."
	switch replaces {
	case "":
		return fmt.Sprintf("%s may join. Start it %s\n\"pawl member list\" shows it as a voter when it has caught up. %s", output.Text(name), start, tell)
	case name:
		return fmt.Sprintf("%s may move. Stop it where it is, and start it at its new address %s", output.Text(name), start)
	}
	return fmt.Sprintf("%[1]s may join in the place of %[2]s. Start %[1]s %[3]s\n%[2]s is removed when %[1]s has its vote, or when %[1]s joins if %[2]s does not answer then. %[4]s", output.Text(name), output.Text(replaces), start, tell)
}

// nameURL takes NAME=URL apart; whether the URL fits the members' is the server's to
// say.
func nameURL(text string) (name, url string, err error) {
	name, url, ok := strings.Cut(text, "=")
	if !ok || !cellName.MatchString(name) {
		return "", "", exit.Failed(exit.CodeUsage, "%q: expected NAME=URL, such as n4=https://d.example:7422", text)
	}
	at, wrong := peerURL(url, strings.HasPrefix(url, "https:"), true)
	if wrong != "" {
		return "", "", exit.Failed(exit.CodeUsage, "%q: %s", text, wrong)
	}
	return name, at, nil
}

// memberBody is a member in JSON.
type memberBody struct {
	Name    string      `json:"name"`
	URL     string      `json:"url"`
	ID      string      `json:"id"`
	Role    string      `json:"role"`
	Leads   bool        `json:"leads"`
	Answers bool        `json:"answers"`
	Applied rest.Number `json:"applied"`
	Asked   bool        `json:"asked"`
}

type membersList struct {
	Members []memberBody `json:"members"`
}

func membersBody(all []*linkpb.Member) membersList {
	list := membersList{Members: []memberBody{}}
	for _, m := range all {
		list.Members = append(list.Members, memberBody{
			Name: m.GetName(), URL: m.GetUrl(), ID: m.GetId(), Role: m.GetRole(), Leads: m.GetLeads(),
			Answers: m.GetAnswers(), Applied: rest.Number(m.GetApplied()), Asked: m.GetAsked(),
		})
	}
	return list
}

func memberRows(all []*linkpb.Member) [][]string {
	rows := [][]string{{"NAME", "URL", "ROLE", "LEADS", "ANSWERS", "APPLIED"}}
	for _, m := range all {
		applied := "-" // unknown
		if m.GetApplied() > 0 {
			applied = strconv.FormatUint(m.GetApplied(), 10)
		}
		rows = append(rows, []string{
			cmp.Or(output.Text(m.GetName()), "-"), output.Text(m.GetUrl()), output.Text(m.GetRole()),
			yesNo(m.GetLeads()), yesNo(m.GetAnswers()), applied,
		})
	}
	return rows
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
