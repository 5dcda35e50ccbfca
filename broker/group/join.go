package group

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// JoinGroup serves versions 0–9: from 4 a new dynamic member is told its id
// first (KIP-394), from 5 members can be static (KIP-345), from 8 they say why
// they join (KIP-800), which is logged, from 9 a static leader that comes back is
// told to skip the assignment (KIP-814).
func (c *Coordinator) JoinGroup(_ context.Context, from Client, r *kmsg.JoinGroupRequest, done func(*kmsg.JoinGroupResponse)) {
	version := r.Version
	reply := func(j JoinReply) { done(joinResponse(version, j)) }
	if r.Group == "" || len(r.Group) > maxGroupName {
		reply(JoinReply{Code: kerr.InvalidGroupID.Code, Member: r.MemberID})
		return
	}
	s := c.shard(r.Group)
	s.mu.Lock()
	defer s.unlock()
	if code := s.unavailable(); code != 0 {
		s.reply(func() { reply(JoinReply{Code: code, Member: r.MemberID}) })
		return
	}
	e := s.groups[r.Group]
	if e == nil {
		if r.MemberID != "" {
			s.reply(func() { reply(JoinReply{Code: kerr.UnknownMemberID.Code, Member: r.MemberID}) })
			return
		}
		e = s.keep(NewGroup(strings.Clone(r.Group), c.rules, nowMilli()))
	}
	c.logReason("a member joins", from, r.Group, r.MemberID, r.Reason)
	ask := joinAsk(from, r)
	ask.Ticket = s.park(func(x Effect) { reply(x.(JoinReply)) })
	e.state.Join(nowMilli(), ask)
	s.run(e)
}

// joinAsk copies what outlives the request's buffer.
func joinAsk(from Client, r *kmsg.JoinGroupRequest) JoinAsk {
	a := JoinAsk{
		Member: strings.Clone(r.MemberID), Instance: strings.Clone(deref(r.InstanceID)),
		ClientID: from.ID, ClientHost: from.Host,
		Session: int64(r.SessionTimeoutMillis), Rebalance: int64(r.RebalanceTimeoutMillis),
		ProtocolType: strings.Clone(r.ProtocolType),
		NeedID:       r.Version >= 4, Skip: r.Version >= 9,
	}
	if r.Version < 1 || a.Rebalance < 0 {
		a.Rebalance = a.Session
	}
	for _, p := range r.Protocols {
		a.Protocols = append(a.Protocols, Protocol{strings.Clone(p.Name), bytes.Clone(p.Metadata)})
	}
	if a.Member == "" {
		prefix := a.Instance
		if prefix == "" {
			prefix = from.ID
		}
		a.NewID = prefix + "-" + newUUID()
	}
	return a
}

// newUUID is a random UUID in the form Java prints.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never returns an error
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func joinResponse(version int16, j JoinReply) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.Version = version
	r.ErrorCode, r.MemberID, r.LeaderID = j.Code, j.Member, j.Leader
	r.SkipAssignment = j.Skip
	r.ProtocolType, r.Protocol = orNil(j.ProtocolType), orNil(j.Protocol)
	r.Generation = j.Generation
	if j.Code != 0 && j.Generation == 0 {
		r.Generation = -1
	}
	for _, m := range j.Members {
		o := kmsg.NewJoinGroupResponseMember()
		o.MemberID, o.InstanceID, o.ProtocolMetadata = m.Member, orNil(m.Instance), m.Metadata
		r.Members = append(r.Members, o)
	}
	return r
}
