package service

import (
	"context"
	"errors"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Member is a server of a cell that keeps its store among its servers.
type Member struct {
	Name, URL string
	// ID in hex; empty for one that has not joined.
	ID string
	// Role is RoleVoter, RoleLearner or RoleExpected.
	Role string
	// Leads: it leads the members. Answers: the server that was asked reaches it.
	// Asked: it is that server's own.
	Leads, Answers, Asked bool
	// Applied is the last entry of the log that it has applied.
	Applied uint64
}

// The roles of a member.
const (
	RoleVoter    = "voter"
	RoleLearner  = "learner"
	RoleExpected = "expected"
)

// NotNowError is what a Roster cannot do at this moment; another server may be able to.
type NotNowError struct{ Err error }

func (e *NotNowError) Error() string { return e.Err.Error() }

func (e *NotNowError) Unwrap() error { return e.Err }

// Roster lists and changes the members. Its errors are for the operator.
type Roster interface {
	Members(ctx context.Context) ([]Member, error)
	// AddMember lets a server join. replaces is removed once it is a voter.
	AddMember(ctx context.Context, name, url, replaces string) error
	RemoveMember(ctx context.Context, name string) error
}

// Members lists the members for who is admin of all names. r is nil where the store has
// none.
func (d *Service) Members(ctx context.Context, r Roster) ([]Member, error) {
	return d.members(ctx, r, "member-list", "", func(context.Context) error { return nil })
}

// AddMember lets a member join; the caller is admin of all names.
func (d *Service) AddMember(ctx context.Context, r Roster, name, url, replaces string) ([]Member, error) {
	detail := name + "=" + url
	if replaces != "" {
		detail += " for " + replaces
	}
	return d.members(ctx, r, "member-add", detail, func(ctx context.Context) error { return r.AddMember(ctx, name, url, replaces) })
}

// RemoveMember removes one; the caller is admin of all names.
func (d *Service) RemoveMember(ctx context.Context, r Roster, name string) ([]Member, error) {
	return d.members(ctx, r, "member-remove", name, func(ctx context.Context) error { return r.RemoveMember(ctx, name) })
}

func (d *Service) members(ctx context.Context, r Roster, verb, detail string, change func(context.Context) error) ([]Member, error) {
	a, ctx, err := d.begin(ctx, verb)
	if err != nil {
		return nil, err
	}
	if !a.identity.Everywhere(access.Admin) {
		return nil, a.finish("", &cell.RefusedError{Refused: Denied(a.identity, access.Admin, "")})
	}
	refuse := func(reason locktable.Reason, text string) ([]Member, error) {
		return nil, a.finish("", &cell.RefusedError{Refused: locktable.Refused{Reason: reason, Message: text}})
	}
	if r == nil {
		return refuse(locktable.Invalid, "the cell's store has no members: its servers were not started with --node and --peers; docs/quorum.md has it from one server to three")
	}
	if no := d.AuditRefusal(); no != nil {
		return nil, no
	}
	a.record.Detail = detail
	err = change(ctx)
	var all []Member
	if err == nil {
		all, err = r.Members(ctx)
	}
	var notNow *NotNowError
	switch {
	case errors.As(err, &notNow):
		return refuse(locktable.Unavailable, err.Error())
	case err != nil:
		return refuse(locktable.Conflict, err.Error())
	}
	if detail == "" {
		return all, nil // what is only read is not recorded
	}
	return all, a.finish("done", nil)
}
