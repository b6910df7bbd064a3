package rest

import (
	"context"
	"time"
)

// StatusBody is the state of the cell as operators see it.
type StatusBody struct {
	Cell  string `json:"cell"`
	Epoch Number `json:"epoch" doc:"Number of the active server's tenure."`
	// Active and what follows say which server decides.
	Active       bool     `json:"active" doc:"This server is the active one."`
	ActiveLink   string   `json:"active_link"`
	ActiveHTTP   string   `json:"active_http"`
	ActiveTTL    Duration `json:"active_ttl"`
	Counter      Number   `json:"counter" doc:"The token counter of the cell."`
	CounterAhead Duration `json:"counter_ahead" doc:"How far the counter stands ahead of the wall clock; negative: behind."`
	Sessions     int      `json:"sessions" format:"int32"`
	Leases       int      `json:"leases" format:"int32"`
	Waiters      int      `json:"waiters" format:"int32"`
	Store        string   `json:"store"`
	Batch        Number   `json:"batch" doc:"The last durable batch of the log."`
	StoreUsed    Number   `json:"store_used_bytes"`
	StoreQuota   Number   `json:"store_quota_bytes" doc:"0: unknown."`
	DiskFree     Number   `json:"disk_free_bytes" doc:"0: unknown."`
	Tight        bool     `json:"tight" doc:"Acquires are refused for want of room."`
	RolledBack   bool     `json:"store_rolled_back" doc:"The log lost acknowledged grants."`
	Version      string   `json:"version"`
}

func (s *service) status(ctx context.Context, _ *struct{}) (*body[StatusBody], error) {
	st, err := s.cell.Status(ctx)
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[StatusBody]{StatusBody{
		Cell: st.Cell, Epoch: Number(st.Epoch),
		Active: st.Active, ActiveLink: st.ActiveLink, ActiveHTTP: st.ActiveHTTP, ActiveTTL: Duration(st.ActiveTTL),
		Counter: Number(st.Token), CounterAhead: Duration(st.Ahead.Round(time.Microsecond)),
		Sessions: st.Sessions, Leases: st.Leases, Waiters: st.Waiters,
		Store: s.store, Batch: Number(st.Batch),
		StoreUsed: Number(max(st.Usage.Used, 0)), StoreQuota: Number(max(st.Usage.Quota, 0)), DiskFree: Number(max(st.Usage.Free, 0)),
		Tight: st.Tight, RolledBack: st.RolledBack, Version: s.version,
	}}, nil
}
