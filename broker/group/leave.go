package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// LeaveGroup serves versions 0–5: from 3 several members at once, static ones
// by their instance id alone; before that the one member's error is the answer's.
// From 5 each says why it leaves (KIP-800), which is logged.
func (c *Coordinator) LeaveGroup(_ context.Context, from Client, r *kmsg.LeaveGroupRequest, done func(*kmsg.LeaveGroupResponse)) {
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
		c.logReason("a member leaves", from, r.Group, m.MemberID, m.Reason)
		o := kmsg.NewLeaveGroupResponseMember()
		o.MemberID, o.InstanceID, o.ErrorCode = m.MemberID, m.InstanceID, codes[i]
		resp.Members = append(resp.Members, o)
	}
}

// maxReason is how much of a reason is logged, in bytes; clients send no more.
const maxReason = 255

// logReason logs why a member says it joins or leaves.
func (c *Coordinator) logReason(what string, from Client, group, member string, reason *string) {
	if reason != nil {
		said := (*reason)[:min(len(*reason), maxReason)]
		c.config.Logger.Debug(what, "group", group, "member", member, "client", from.ID, "reason", said)
	}
}
