package group

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupOperations are what may be done to a group, as the bits of Kafka's ACL
// operations read, delete, describe, describe configs, alter configs.
const groupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// maxAnswer bounds the bytes of an answer that repeats much for each of a
// request's few bytes; sizeOfMember is about what a member takes besides what it
// sent.
const (
	maxAnswer    = 64 << 20
	sizeOfMember = 128
)

// DescribeGroups serves versions 0–6: from 3 with authorized operations, from 4
// with instance ids; from 6 an unknown group is an error (KIP-1043), before it
// is Dead. What members sent about themselves is returned byte for byte, while the
// group is Stable; what they were given, until they are given anew.
func (c *Coordinator) DescribeGroups(_ context.Context, _ Client, r *kmsg.DescribeGroupsRequest, done func(*kmsg.DescribeGroupsResponse)) {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Version = r.Version
	size := 0
	for _, name := range r.Groups {
		g := kmsg.NewDescribeGroupsResponseGroup()
		if g.Group, g.ErrorCode = name, kerr.InvalidRequest.Code; size <= maxAnswer {
			g = c.describe(strings.Clone(name), r.Version)
		}
		for i := range g.Members {
			size += sizeOfMember + len(g.Members[i].ProtocolMetadata) + len(g.Members[i].MemberAssignment)
		}
		if r.IncludeAuthorizedOperations && g.ErrorCode == 0 {
			g.AuthorizedOperations = groupOperations
		}
		resp.Groups = append(resp.Groups, g)
	}
	done(resp)
}

func (c *Coordinator) describe(name string, version int16) kmsg.DescribeGroupsResponseGroup {
	d := kmsg.NewDescribeGroupsResponseGroup()
	d.Group = name
	s := c.shard(name)
	s.mu.Lock()
	defer s.unlock()
	if d.ErrorCode = s.unavailable(); d.ErrorCode != 0 {
		return d
	}
	g := s.group(name)
	if g != nil && g.state != Dead {
		g.describe(&d)
		return d
	}
	code := kerr.GroupIDNotFound.Code
	if g == nil {
		code = s.offsetsOnly(name)
	}
	switch {
	case code == 0:
		d.State = Empty.String()
	case code != kerr.GroupIDNotFound.Code:
		d.ErrorCode = code
	default:
		d.State = Dead.String()
		if version >= 6 {
			message := "Group " + name + " not found."
			d.ErrorCode, d.ErrorMessage = code, &message
		}
	}
	return d
}

func (g *Group) describe(d *kmsg.DescribeGroupsResponseGroup) {
	d.State, d.ProtocolType = g.state.String(), g.protocolType
	stable := g.state == Stable
	if stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.order {
		o := kmsg.NewDescribeGroupsResponseGroupMember()
		o.MemberID, o.InstanceID = m.ID, orNil(m.Instance)
		o.ClientID, o.ClientHost, o.MemberAssignment = m.ClientID, m.ClientHost, m.Assignment
		if stable {
			o.ProtocolMetadata = m.metadata(g.protocol)
		}
		d.Members = append(d.Members, o)
	}
}
