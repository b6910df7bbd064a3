package link

import (
	"context"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/service"
)

// MemberList lists the members of a cell that keeps its store among its servers.
func (s *Server) MemberList(ctx context.Context, _ *linkpb.MemberListRequest) (*linkpb.MemberListResponse, error) {
	all, err := s.service.Members(s.presenting(ctx), s.o.Roster)
	if err != nil {
		return nil, s.failed(err)
	}
	return &linkpb.MemberListResponse{Members: membersShown(all)}, nil
}

// MemberAdd lets one join.
func (s *Server) MemberAdd(ctx context.Context, r *linkpb.MemberAddRequest) (*linkpb.MemberAddResponse, error) {
	all, err := s.service.AddMember(s.presenting(ctx), s.o.Roster, r.Name, r.Url, r.Replaces)
	if err != nil {
		return nil, s.failed(err)
	}
	return &linkpb.MemberAddResponse{Members: membersShown(all)}, nil
}

// MemberRemove removes one.
func (s *Server) MemberRemove(ctx context.Context, r *linkpb.MemberRemoveRequest) (*linkpb.MemberRemoveResponse, error) {
	all, err := s.service.RemoveMember(s.presenting(ctx), s.o.Roster, r.Name)
	if err != nil {
		return nil, s.failed(err)
	}
	return &linkpb.MemberRemoveResponse{Members: membersShown(all)}, nil
}

func membersShown(all []service.Member) []*linkpb.Member {
	shown := make([]*linkpb.Member, 0, len(all))
	for _, m := range all {
		shown = append(shown, &linkpb.Member{
			Name: m.Name, Url: m.URL, Id: m.ID, Role: m.Role, Leads: m.Leads, Answers: m.Answers, Applied: m.Applied, Asked: m.Asked,
		})
	}
	return shown
}
