package group

import (
	"bytes"
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SyncGroup serves versions 0–5: from 3 with an instance id, from 5 with the
// protocol the client believes chosen, which must be there (KIP-559).
func (c *Coordinator) SyncGroup(_ context.Context, _ Client, r *kmsg.SyncGroupRequest, done func(*kmsg.SyncGroupResponse)) {
	version := r.Version
	reply := func(x SyncReply) { done(syncResponse(version, x)) }
	if r.Group == "" {
		reply(SyncReply{Code: kerr.InvalidGroupID.Code})
		return
	}
	if version >= 5 && (r.ProtocolType == nil || r.Protocol == nil) {
		reply(SyncReply{Code: kerr.InconsistentGroupProtocol.Code})
		return
	}
	s := c.shard(r.Group)
	s.mu.Lock()
	defer s.unlock()
	code := s.unavailable()
	if code == kerr.CoordinatorLoadInProgress.Code {
		// It belongs to a generation from before the move: join again.
		code = kerr.RebalanceInProgress.Code
	}
	e := s.groups[r.Group]
	if code == 0 && e == nil {
		code = kerr.UnknownMemberID.Code
	}
	if code != 0 {
		s.reply(func() { reply(SyncReply{Code: code}) })
		return
	}
	ask := SyncAsk{
		Member: strings.Clone(r.MemberID), Instance: deref(r.InstanceID), Generation: r.Generation,
		ProtocolType: r.ProtocolType, Protocol: r.Protocol,
		Assignment: make(map[string][]byte, len(r.GroupAssignment)),
	}
	for _, a := range r.GroupAssignment {
		ask.Assignment[strings.Clone(a.MemberID)] = bytes.Clone(a.MemberAssignment)
	}
	ask.Ticket = s.park(func(x Effect) { reply(x.(SyncReply)) })
	e.state.Sync(nowMilli(), ask)
	s.run(e)
}

func syncResponse(version int16, x SyncReply) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.Version = version
	r.ErrorCode, r.MemberAssignment = x.Code, x.Assignment
	r.ProtocolType, r.Protocol = orNil(x.ProtocolType), orNil(x.Protocol)
	return r
}
