package etcdstore

import (
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Health is what a store knows of itself beside its usage.
type Health struct {
	// FileSystem is the kind that the data folder is on; empty: unknown.
	FileSystem string
	// Alarms are what etcd complains about.
	Alarms []string
	// Bytes of this server's own member: what is in use of its database's file, the
	// file, and what the file may grow to; Free is under the data folder. 0: unknown.
	Used, File, Quota, Free int64
	// History is how many revisions of its past are kept; 0: unknown.
	History int64
	// Endpoints are the members of a cluster that others run.
	Endpoints []EndpointHealth
}

// EndpointHealth is a member of a cluster that others run, as this server reached it
// last.
type EndpointHealth struct {
	Address string
	// Failed is why it gave no answer; empty: it did, or refused to tell.
	Failed         string
	Leads, Learner bool
	// Applied is the last entry of the log that it has applied; 0: unknown.
	Applied uint64
	Version string
	File    int64
	alarms  []string
}

func endpointHealth(address string, res *pb.StatusResponse, err error) EndpointHealth {
	h := EndpointHealth{
		Address: address, Learner: res.GetIsLearner(), Applied: res.GetRaftAppliedIndex(), Version: res.GetVersion(), File: res.GetDbSize(),
		Leads: res.GetLeader() != 0 && res.GetLeader() == res.GetHeader().GetMemberId(), alarms: res.GetErrors(),
	}
	switch code := status.Code(err); code {
	case codes.OK, codes.PermissionDenied:
	case codes.DeadlineExceeded:
		h.Failed = "no answer in time"
	default:
		h.Failed = err.Error()
	}
	return h
}

// Health tells how the cluster was when it was looked at last.
func (e *External) Health() Health {
	u := e.usage.Load()
	h := Health{FileSystem: fileSystem(e.folder.dir), Used: u.Used, Quota: u.Quota, History: u.History}
	if each := e.surveyed.Load(); each != nil {
		h.Endpoints = *each
	}
	for _, one := range h.Endpoints {
		h.File = max(h.File, one.File)
		for _, a := range one.alarms {
			h.Alarms = append(h.Alarms, one.Address+": "+a)
		}
	}
	return h
}

// Health tells how this server's member is. It must run.
func (e *Embedded) Health() Health {
	h := Health{FileSystem: fileSystem(e.folder.dir), Quota: e.opts.Quota}
	h.Free, _ = e.folder.free() // 0 where it is unknown
	backend, kv := e.etcd.Server.Backend(), e.etcd.Server.KV()
	h.Used, h.File, h.History = backend.SizeInUse(), backend.Size(), kv.Rev()-max(kv.FirstRev(), 0)
	for _, a := range e.etcd.Server.Alarms() {
		h.Alarms = append(h.Alarms, a.Alarm.String()+" of the member "+e.nameOf(a.MemberID))
	}
	return h
}

// nameOf is the name of a member, or its id where it has none.
func (e *Embedded) nameOf(id uint64) string {
	for _, m := range membersOf(e.etcd) {
		if m.ID == id && m.Name != "" {
			return m.Name
		}
	}
	return strconv.FormatUint(id, 16)
}

// Health tells how this server's member is, as far as it has its place.
func (q *Quorum) Health() Health {
	if q.begun.Load() {
		return q.Embedded.Health()
	}
	h := Health{FileSystem: fileSystem(q.folder.dir)}
	h.Free, _ = q.folder.free() // 0 where it is unknown
	return h
}
