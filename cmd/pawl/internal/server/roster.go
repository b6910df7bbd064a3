package server

import (
	"context"
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
	return shown, err
}
