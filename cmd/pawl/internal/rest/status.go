package rest

import (
	"context"
	"time"
)

// StatusBody is the state of the cell as operators see it.
type StatusBody struct {
	Cell  string `json:"cell"`
	Epoch Number `json:"epoch" doc:"Number of this server's tenure; 0 where it is not the active one."`
	// Role, Active and what follows say which server decides.
	Role         string    `json:"role" enum:"active,standby,waiting" doc:"What this server does for the cell: it is the active one, it stands by while another is, or it waits and knows of no active one. Only the active one knows the cell: the numbers that another shows say nothing."`
	Active       bool      `json:"active" doc:"This server is the active one."`
	Waits        string    `json:"waits,omitempty" doc:"What the store of a server that is not the active one waits for, such as a majority of the members. Absent where it does not wait, or nobody knows for what."`
	ActiveLink   string    `json:"active_link"`
	ActiveHTTP   string    `json:"active_http"`
	ActiveTTL    Duration  `json:"active_ttl"`
	Followed     Number    `json:"followed_batch,omitempty" doc:"The last batch that this standby has read of the active server's log. Absent on a server that does not stand by, or has not read it to the end yet."`
	Behind       Duration  `json:"behind,omitempty" doc:"How long ago this standby began to read the log to its end last. Absent with followed_batch."`
	Counter      Number    `json:"counter" doc:"The token counter of the cell."`
	CounterAhead Duration  `json:"counter_ahead" doc:"How far the counter stands ahead of the wall clock; negative: behind."`
	Sessions     int       `json:"sessions" format:"int32"`
	Leases       int       `json:"leases" format:"int32"`
	Waiters      int       `json:"waiters" format:"int32"`
	Store        string    `json:"store"`
	Batch        Number    `json:"batch" doc:"The last durable batch of the log."`
	StoreUsed    Number    `json:"store_used_bytes"`
	StoreQuota   Number    `json:"store_quota_bytes" doc:"0: unknown."`
	DiskFree     Number    `json:"disk_free_bytes" doc:"0: unknown."`
	StoreHistory Number    `json:"store_history_revisions" doc:"How many revisions of its past the store keeps; 0: unknown."`
	StoreWarning string    `json:"store_warning,omitempty" doc:"What an operator should do something about. Absent where there is nothing."`
	Tight        bool      `json:"tight" doc:"Acquires are refused for want of room."`
	RolledBack   bool      `json:"store_rolled_back" doc:"The log lost acknowledged grants."`
	Drill        *Duration `json:"drill,omitempty" doc:"How long the cell goes on answering as one that lost its quorum, for a drill; the other numbers are from before. Absent when none is held."`
	Version      string    `json:"version"`
	TLS          bool      `json:"tls" doc:"Connections are secured."`
	Auth         bool      `json:"auth" doc:"Callers prove who they are."`
	Partial      bool      `json:"partial,omitempty" doc:"The caller may not see the state in full: all numbers but the epoch are left out. Absent otherwise."`
}

func (s *handlers) status(ctx context.Context, _ *struct{}) (*body[StatusBody], error) {
	st, err := s.cell.Status(ctx)
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[StatusBody]{StatusBody{
		Cell: st.Cell, Epoch: Number(st.Epoch),
		Role: st.Role(), Active: st.Active, Waits: st.Waits, ActiveLink: st.ActiveLink, ActiveHTTP: st.ActiveHTTP, ActiveTTL: Duration(st.ActiveTTL),
		Followed: Number(st.Followed), Behind: Duration(st.Behind.Round(time.Millisecond)),
		Counter: Number(st.Token), CounterAhead: Duration(st.Ahead.Round(time.Microsecond)),
		Sessions: st.Sessions, Leases: st.Leases, Waiters: st.Waiters,
		Store: s.store, Batch: Number(st.Batch),
		StoreUsed: Number(max(st.Usage.Used, 0)), StoreQuota: Number(max(st.Usage.Quota, 0)), DiskFree: Number(max(st.Usage.Free, 0)),
		StoreHistory: Number(max(st.Usage.History, 0)), StoreWarning: st.Usage.Warning,
		Tight: st.Tight, RolledBack: st.RolledBack, Drill: DrillLeft(st.Drill),
		Version: s.version, TLS: s.tls, Auth: s.auth, Partial: st.Partial,
	}}, nil
}
