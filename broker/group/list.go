package group

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// classicType is the group type tools filter by.
const classicType = "classic"

// ListGroups serves versions 0–5: from 4 with states, from 5 with types. It
// lists what this broker coordinates; clients ask every broker.
func (c *Coordinator) ListGroups(_ context.Context, _ Client, r *kmsg.ListGroupsRequest, done func(*kmsg.ListGroupsResponse)) {
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version = r.Version
	states, types := filterOf(r.StatesFilter), filterOf(r.TypesFilter)
	for _, s := range c.shards {
		groups, code := s.list()
		if code != 0 && code != kerr.NotCoordinator.Code {
			resp.ErrorCode = code
		}
		for _, g := range groups {
			if states.passes(g.GroupState) && types.passes(g.GroupType) {
				resp.Groups = append(resp.Groups, g)
			}
		}
	}
	done(resp)
}

// filter is the values that pass, in lower case; an empty one lets all pass.
type filter map[string]bool

func filterOf(values []string) filter {
	f := make(filter, len(values))
	for _, v := range values {
		f[strings.ToLower(v)] = true
	}
	return f
}

func (f filter) passes(value string) bool { return len(f) == 0 || f[strings.ToLower(value)] }

// list gives the groups of one partition by name, those known only by their
// offsets included.
func (s *shard) list() (out []kmsg.ListGroupsResponseGroup, code int16) {
	s.mu.Lock()
	code = s.unavailable()
	listed := map[string]bool{}
	for name, e := range s.groups {
		listed[name] = true
		if e.state.State() != Dead && code == 0 {
			out = append(out, listEntry(name, e.state.protocolType, e.state.State()))
		}
	}
	s.unlock()
	if code != 0 {
		return nil, code
	}
	names, err := s.co.config.Store.OffsetGroups(s.partition)
	if err != nil {
		s.co.config.Logger.Error("list groups", "partition", s.partition, "error", err)
		return nil, kerr.CoordinatorNotAvailable.Code
	}
	for _, name := range names {
		if !listed[name] {
			out = append(out, listEntry(name, "", Empty))
		}
	}
	slices.SortFunc(out, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	return out, 0
}

func listEntry(name, protocolType string, state State) kmsg.ListGroupsResponseGroup {
	g := kmsg.NewListGroupsResponseGroup()
	g.Group, g.ProtocolType, g.GroupState, g.GroupType = name, protocolType, state.String(), classicType
	return g
}
