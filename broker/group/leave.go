package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// LeaveGroup serves versions 0–5: from 3 several members at once, static ones
// by their instance id alone; before that the one member's error is the answer's.
func (c *Coordinator) LeaveGroup(_ context.Context, _ Client, r *kmsg.LeaveGroupRequest, done func(*kmsg.LeaveGroupResponse)) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version = r.Version
	if r.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		done(resp)
		return
	}
	var asks []LeaveAsk
	if r.Version < 3 {
		asks = []LeaveAsk{{Member: r.MemberID}}
	}
	for _, m := range r.Members {
		asks = append(asks, LeaveAsk{m.MemberID, deref(m.InstanceID)})
	}
	s := c.shard(r.Group)
	s.mu.Lock()
	defer s.unlock()
	s.reply(func() { done(resp) })
	if resp.ErrorCode = s.unavailable(); resp.ErrorCode != 0 {
		return
	}
	codes := make([]int16, len(asks))
	switch e := s.groups[r.Group]; {
	case e == nil:
		for i := range codes {
			codes[i] = kerr.UnknownMemberID.Code
		}
	case e.state.State() == Dead:
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return
	default:
		codes = e.state.Leave(nowMilli(), asks)
		s.run(e)
	}
	if r.Version < 3 {
		resp.ErrorCode = codes[0]
		return
	}
	for i, m := range r.Members {
		o := kmsg.NewLeaveGroupResponseMember()
		o.MemberID, o.InstanceID, o.ErrorCode = m.MemberID, m.InstanceID, codes[i]
		resp.Members = append(resp.Members, o)
	}
}
