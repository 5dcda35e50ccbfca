package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat serves versions 0–4: from 3 with an instance id. While the partition
// is loading it is answered with no error, as nothing has been lost yet.
func (c *Coordinator) Heartbeat(_ context.Context, _ Client, r *kmsg.HeartbeatRequest, done func(*kmsg.HeartbeatResponse)) {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version = r.Version
	if r.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		done(resp)
		return
	}
	s := c.shard(r.Group)
	s.mu.Lock()
	defer s.unlock()
	s.reply(func() { done(resp) })
	if code := s.unavailable(); code != 0 {
		if code != kerr.CoordinatorLoadInProgress.Code {
			resp.ErrorCode = code
		}
		return
	}
	e := s.groups[r.Group]
	if e == nil {
		resp.ErrorCode = kerr.UnknownMemberID.Code
		return
	}
	resp.ErrorCode = e.state.Heartbeat(r.MemberID, deref(r.InstanceID), r.Generation)
	s.run(e)
}
