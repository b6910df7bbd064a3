package server

import (
	"context"
	"errors"
	"strconv"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/internal/service"
)

// roster shows the fronts the members of a quorum.
type roster struct{ *etcdstore.Quorum }

func (r roster) Members(ctx context.Context) ([]service.Member, error) {
	all, err := r.Quorum.Members(ctx)
	var shown []service.Member
	for _, m := range all {
		s := service.Member{Name: m.Name, URL: m.URL, Role: service.RoleVoter, Leads: m.Leads, Answers: m.Answers, Asked: m.Own, Applied: m.Applied}
		switch {
		case m.ID == 0:
			s.Role = service.RoleExpected
		case m.Learner:
			s.Role = service.RoleLearner
		}
		if m.ID != 0 {
			s.ID = strconv.FormatUint(m.ID, 16)
		}
		shown = append(shown, s)
	}
	return shown, notNow(err)
}

func (r roster) AddMember(ctx context.Context, name, url, replaces string) error {
	return notNow(r.Quorum.AddMember(ctx, name, url, replaces))
}

func (r roster) RemoveMember(ctx context.Context, name string) error {
	return notNow(r.Quorum.RemoveMember(ctx, name))
}

// notNow marks what another server may be able to do, or this one later.
func notNow(err error) error {
	if errors.Is(err, etcdstore.ErrNoPlace) || errors.Is(err, etcdstore.ErrNoMajority) {
		return &service.NotNowError{Err: err}
	}
	return err
}
