package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/jobs"
)

// groupState is a group in one line.
type groupState struct {
	Name     string
	State    string
	Protocol string
	Members  int
	Topics   int
	Lag      int64 // records it has yet to read; untold = not known
}

// Says is the state in words.
func (g groupState) Says() string { return stateName(g.State) }

// groupMember is one member of a group.
type groupMember struct {
	ID, Instance, Client, Host string
	Partitions                 int
}

// groupPosition is where a group stands on a partition.
type groupPosition struct {
	Topic     string
	Partition int32
	Committed int64 // untold = nothing
	End       int64
	Lag       int64  // untold = not known
	Waits     string // how long the next record it will read has waited
	Member    string
	Gone      bool // the topic or partition is no more
}

// groupDetail is all of a group.
type groupDetail struct {
	groupState
	assignor  string
	members   []groupMember
	positions []groupPosition
	trouble   error // what could not be asked
}

// listGroups lists all groups by name.
func listGroups(ctx context.Context, c consumer.Cluster) ([]groupState, error) {
	resp, err := request[*kmsg.ListGroupsResponse](ctx, c, kmsg.NewPtrListGroupsRequest())
	if err != nil {
		return nil, err
	}
	if code := kerr.ErrorForCode(resp.ErrorCode); code != nil {
		return nil, fmt.Errorf("groups: %w: %w", consumer.ErrUnavailable, code)
	}
	list := make([]groupState, 0, len(resp.Groups))
	for _, g := range resp.Groups {
		list = append(list, groupState{Name: g.Group, State: g.GroupState, Protocol: g.ProtocolType, Lag: untold})
	}
	slices.SortFunc(list, func(a, b groupState) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// fillGroups adds members and lag to some groups.
func fillGroups(ctx context.Context, c consumer.Cluster, groups []groupState) error {
	if len(groups) == 0 {
		return nil
	}
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].Name
	}
	described, err := describeGroups(ctx, c, names)
	for i := range groups {
		if d := described[groups[i].Name]; d != nil {
			groups[i].Members, groups[i].State = len(d.Members), cmp.Or(d.State, groups[i].State)
		}
	}
	committed, offsetsErr := committedOf(ctx, c, names)
	ends, endsErr := endsFor(ctx, c, committed)
	for i := range groups {
		g := &groups[i]
		of, told := committed[g.Name]
		if !told {
			continue
		}
		g.Lag = 0
		topics := map[string]bool{}
		for at, offset := range of {
			topics[at.topic] = true
			switch end, known := ends[at]; {
			case known && end >= 0 && g.Lag >= 0:
				g.Lag += max(0, end-offset)
			case known:
				g.Lag = untold
			}
		}
		g.Topics = len(topics)
	}
	return errors.Join(err, offsetsErr, endsErr)
}

// describeGroups asks the coordinators about groups.
func describeGroups(ctx context.Context, c consumer.Cluster, names []string) (map[string]*kmsg.DescribeGroupsResponseGroup, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = names
	resp, err := request[*kmsg.DescribeGroupsResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	out := map[string]*kmsg.DescribeGroupsResponseGroup{}
	for i := range resp.Groups {
		g := &resp.Groups[i]
		if code := kerr.ErrorForCode(g.ErrorCode); code != nil && !errors.Is(code, kerr.GroupIDNotFound) {
			err = fmt.Errorf("group %s: %w", g.Group, code)
			continue
		}
		out[g.Group] = g
	}
	return out, err
}

// committedOf are the offsets that groups have committed. A group that could not
// be asked is absent.
func committedOf(ctx context.Context, c consumer.Cluster, names []string) (map[string]map[spot]int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	for _, name := range names {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = name
		req.Groups = append(req.Groups, g)
	}
	req.Group = names[0] // for brokers that know one group a request only
	resp, err := request[*kmsg.OffsetFetchResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	out := map[string]map[spot]int64{}
	for _, g := range resp.Groups {
		if code := kerr.ErrorForCode(g.ErrorCode); code != nil {
			err = fmt.Errorf("offsets of group %s: %w", g.Group, code)
			continue
		}
		of := map[spot]int64{}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.Offset >= 0 {
					of[spot{t.Topic, p.Partition}] = p.Offset
				}
			}
		}
		out[g.Group] = of
	}
	return out, err
}

// endsFor are the ends of the logs that groups have committed offsets of; untold
// where a leader didn't tell, absent where there is no such partition.
func endsFor(ctx context.Context, c consumer.Cluster, committed map[string]map[spot]int64) (map[spot]int64, error) {
	wanted := map[spot]bool{}
	for _, of := range committed {
		for at := range of {
			wanted[at] = true
		}
	}
	ps, err := partitionsAt(ctx, c, wanted)
	if err != nil {
		return nil, err
	}
	err = offsetsAt(ctx, c, ps, atEnd, func(p *partition, o int64) { p.End = o })
	ends := map[spot]int64{}
	for _, p := range ps {
		ends[spot{p.Topic, p.Index}] = p.End
	}
	return ends, err
}

// partitionsAt finds partitions; those that are no more are left out.
func partitionsAt(ctx context.Context, c consumer.Cluster, wanted map[spot]bool) ([]*partition, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	names := map[string]bool{}
	req := kmsg.NewPtrMetadataRequest()
	for at := range wanted {
		if names[at.topic] {
			continue
		}
		names[at.topic] = true
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &at.topic
		req.Topics = append(req.Topics, t)
	}
	topics, err := topicsAnswered(ctx, c, req, false)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(partitionsOf(topics), func(p *partition) bool { return !wanted[spot{p.Topic, p.Index}] }), nil
}

// describeGroup asks for all of one group.
func describeGroup(ctx context.Context, c consumer.Cluster, name string) (*groupDetail, error) {
	described, err := describeGroups(ctx, c, []string{name})
	if err != nil {
		return nil, err
	}
	committed, err := committedOf(ctx, c, []string{name})
	if err != nil {
		return nil, err
	}
	d, of := described[name], committed[name]
	if (d == nil || d.State == "Dead") && len(of) == 0 {
		return nil, &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "no group " + printable([]byte(name)), Hint: "a group is there while it has members or committed offsets"}
	}
	g := &groupDetail{groupState: groupState{Name: name, State: "Empty"}}
	readers := map[spot]string{}
	if d != nil {
		g.State, g.Protocol, g.assignor, g.Members = d.State, d.ProtocolType, d.Protocol, len(d.Members)
		for i := range d.Members {
			g.members = append(g.members, memberOf(&d.Members[i], d.ProtocolType, readers))
		}
	}
	slices.SortFunc(g.members, func(a, b groupMember) int { return strings.Compare(a.ID, b.ID) })
	g.place(ctx, c, of, readers)
	return g, nil
}

// memberOf is a member; what it was given goes to readers.
func memberOf(m *kmsg.DescribeGroupsResponseGroupMember, protocol string, readers map[spot]string) groupMember {
	member := groupMember{ID: m.MemberID, Client: m.ClientID, Host: strings.TrimPrefix(m.ClientHost, "/")}
	if m.InstanceID != nil {
		member.Instance = *m.InstanceID
	}
	var given kmsg.ConsumerMemberAssignment
	if protocol != "consumer" || given.ReadFrom(m.MemberAssignment) != nil {
		return member
	}
	for _, t := range given.Topics {
		for _, p := range t.Partitions {
			readers[spot{t.Topic, p}] = m.MemberID
			member.Partitions++
		}
	}
	return member
}

// place lists the partitions that a group has committed or reads, with their lag.
func (g *groupDetail) place(ctx context.Context, c consumer.Cluster, committed map[spot]int64, readers map[spot]string) {
	wanted := map[spot]bool{}
	for at := range committed {
		wanted[at] = true
	}
	for at := range readers {
		wanted[at] = true
	}
	ps, err := partitionsAt(ctx, c, wanted)
	if err == nil {
		err = offsetsAt(ctx, c, ps, atEnd, func(p *partition, o int64) { p.End = o })
	}
	g.trouble = err
	found := byPlace(ps)
	topics := map[string]bool{}
	for at := range wanted {
		topics[at.topic] = true
		p := groupPosition{Topic: at.topic, Partition: at.index, Committed: untold, End: untold, Lag: untold, Member: readers[at]}
		if offset, ok := committed[at]; ok {
			p.Committed = offset
		}
		if there := found[at]; there != nil {
			p.End = there.End
		} else {
			p.Gone = ps != nil || err == nil
		}
		if p.Committed >= 0 && p.End >= 0 {
			p.Lag = max(0, p.End-p.Committed)
			g.Lag += p.Lag
		}
		g.positions = append(g.positions, p)
	}
	g.Topics = len(topics)
	slices.SortFunc(g.positions, func(a, b groupPosition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// lagTimes says how long the next record of each position has waited, and when
// the oldest of them was written; zero = none waits, or it is not known.
func lagTimes(ctx context.Context, c consumer.Cluster, rows []groupPosition, now time.Time) (oldest time.Time) {
	behind := map[spot]bool{}
	for _, p := range rows {
		if p.Lag > 0 && len(behind) < timedPositions {
			behind[spot{p.Topic, p.Partition}] = true
		}
	}
	ps, err := partitionsAt(ctx, c, behind)
	if err != nil || measure(ctx, c, ps) != nil {
		return oldest // the lag in records stands; nothing else is known
	}
	found := byPlace(ps)
	leaders := leadersOf(ps)
	times := make([]time.Time, len(rows))
	room := make(chan struct{}, partsAtATime)
	var wg sync.WaitGroup
	for i, row := range rows {
		p := found[spot{row.Topic, row.Partition}]
		if p == nil || p.Start < 0 || p.End < 0 {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			one := partRead{c: c, p: p, leaders: leaders}
			times[i], _ = one.timeOf(ctx, row.Committed)
		})
	}
	wg.Wait()
	for i, written := range times {
		if written.IsZero() {
			continue
		}
		rows[i].Waits = waited(written, now)
		if oldest.IsZero() || written.Before(oldest) {
			oldest = written
		}
	}
	return oldest
}

// coordinator is the broker that coordinates a group.
func coordinator(ctx context.Context, c consumer.Cluster, group string) (int32, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := request[*kmsg.FindCoordinatorResponse](ctx, c, req)
	if err != nil {
		return untold, err
	}
	node, code := resp.NodeID, resp.ErrorCode
	if len(resp.Coordinators) > 0 {
		node, code = resp.Coordinators[0].NodeID, resp.Coordinators[0].ErrorCode
	}
	if err := kerr.ErrorForCode(code); err != nil {
		return untold, fmt.Errorf("coordinator of %s: %w", group, err)
	}
	return node, nil
}
