package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/offsets"
)

// Group is a group of consumers.
type Group struct {
	Name     string
	State    string // Stable, Empty, PreparingRebalance, CompletingRebalance, Dead
	Protocol string // consumer, connect, …
	Type     string // classic, consumer, …
	Assignor string
	Members  []GroupMember // in order of their ids
}

// GroupMember is one member of a group and what it was given.
type GroupMember struct {
	ID, Instance, Client, Host string
	Given                      []offsets.TopicPartition
}

// listPatience is how long one broker may hold up a list of groups, half of the time
// there is at most: what is told of them has to be asked for, too.
const listPatience = 5 * time.Second

// Groups lists all groups by name, without their members. Each broker knows those it
// coordinates; the error names the brokers that didn't tell, and the groups of the
// others stand beside it.
func Groups(ctx context.Context, c consumer.Cluster) ([]Group, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	up, err := consumer.Ask[*kmsg.MetadataResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	ids := make([]int32, len(up.Brokers))
	for i := range up.Brokers {
		ids[i] = up.Brokers[i].NodeID
	}
	within := listPatience
	if end, bounded := ctx.Deadline(); bounded {
		within = min(within, time.Until(end)/2)
	}
	var mu sync.Mutex
	found := map[string]Group{}
	err = atBrokers(ctx, c, ids, within, func(ctx context.Context, at consumer.Requestor, _ int32) error {
		resp, err := consumer.Ask[*kmsg.ListGroupsResponse](ctx, at, kmsg.NewPtrListGroupsRequest())
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, g := range resp.Groups {
			found[g.Group] = Group{Name: g.Group, State: g.GroupState, Protocol: g.ProtocolType, Type: g.GroupType}
		}
		return refusal("groups", resp.ErrorCode, nil)
	})
	return slices.SortedFunc(maps.Values(found), func(a, b Group) int { return strings.Compare(a.Name, b.Name) }), err
}

// DescribeGroups asks the coordinators about groups. Those that are not there are
// Dead or absent; those that were refused are absent, and are the error.
func DescribeGroups(ctx context.Context, c consumer.Requestor, names []string) (map[string]*Group, error) {
	found := map[string]*Group{}
	if len(names) == 0 {
		return found, nil
	}
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = names
	resp, err := consumer.AskPieces[*kmsg.DescribeGroupsResponse](ctx, c, req)
	if resp == nil {
		return nil, err
	}
	var all refusals
	all.add(err)
	for i := range resp.Groups {
		told := &resp.Groups[i]
		if told.ErrorCode == kerr.GroupIDNotFound.Code {
			continue
		}
		if err := refusal("group "+told.Group, told.ErrorCode, told.ErrorMessage); err != nil {
			all.add(err)
			continue
		}
		g := &Group{Name: told.Group, State: told.State, Protocol: told.ProtocolType, Type: "classic", Assignor: told.Protocol}
		for j := range told.Members {
			g.Members = append(g.Members, memberOf(&told.Members[j], told.ProtocolType))
		}
		slices.SortFunc(g.Members, func(a, b GroupMember) int { return strings.Compare(a.ID, b.ID) })
		found[g.Name] = g
	}
	return found, all.err()
}

func memberOf(m *kmsg.DescribeGroupsResponseGroupMember, protocol string) GroupMember {
	member := GroupMember{ID: m.MemberID, Instance: deref(m.InstanceID), Client: m.ClientID, Host: m.ClientHost}
	var given kmsg.ConsumerMemberAssignment
	if protocol != "consumer" || given.ReadFrom(m.MemberAssignment) != nil {
		return member
	}
	for _, t := range given.Topics {
		for _, p := range t.Partitions {
			member.Given = append(member.Given, offsets.TopicPartition{Topic: t.Topic, Partition: p})
		}
	}
	return member
}

// Coordinator is the broker that coordinates a group.
func Coordinator(ctx context.Context, c consumer.Requestor, group string) (int32, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := consumer.Ask[*kmsg.FindCoordinatorResponse](ctx, c, req)
	if err != nil {
		return Untold, err
	}
	node, code, said := resp.NodeID, resp.ErrorCode, resp.ErrorMessage
	if len(resp.Coordinators) > 0 {
		first := &resp.Coordinators[0]
		node, code, said = first.NodeID, first.ErrorCode, first.ErrorMessage
	}
	if err := refusal("coordinator of "+group, code, said); err != nil {
		return Untold, err
	}
	return node, nil
}

// Committed are the offsets that groups have committed, of all topics. A group that
// was refused is absent, and is the error.
func Committed(ctx context.Context, c consumer.Requestor, groups []string) (map[string]map[offsets.TopicPartition]int64, error) {
	found := map[string]map[offsets.TopicPartition]int64{}
	if len(groups) == 0 {
		return found, nil
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = groups[0] // for brokers that know one group a request only
	for _, name := range groups {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = name
		req.Groups = append(req.Groups, g)
	}
	resp, err := consumer.AskPieces[*kmsg.OffsetFetchResponse](ctx, c, req)
	if resp == nil {
		return nil, err
	}
	var all refusals
	all.add(err)
	for _, g := range resp.Groups {
		if err := refusal("offsets of group "+g.Group, g.ErrorCode, nil); err != nil {
			all.add(err)
			continue
		}
		of := map[offsets.TopicPartition]int64{}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.Offset >= 0 {
					of[offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p.Offset
				}
			}
		}
		found[g.Group] = of
	}
	return found, all.err()
}

// Commit sets the offsets of a group that has no members, of some partitions of a
// topic, and tells of which it has. It is repeated where that may help; Joined tells
// whether members refused it.
func Commit(ctx context.Context, c consumer.Cluster, group string, topic *Topic, to map[int32]int64) (set []int32, err error) {
	t := consumer.Topic{Name: topic.Name, ID: topic.ID}
	at := map[offsets.TopicPartition]offsets.Offset{}
	all := slices.Sorted(maps.Keys(to))
	for _, index := range all {
		t.Partitions = append(t.Partitions, consumer.Partition{Index: index})
		at[offsets.TopicPartition{Topic: t.Name, Partition: index}] = offsets.Offset(to[index])
	}
	answers, err := consumer.Commit(ctx, c, group, []consumer.Topic{t}, at)
	if errors.Is(err, consumer.ErrSilent) {
		err = nil // deeds names each
	}
	told := map[int32]error{}
	for tp, err := range answers {
		told[tp.Partition] = nil
		if code, refused := errors.AsType[*kerr.Error](err); refused {
			told[tp.Partition] = partitionRefusal("group "+group+", ", tp, code.Code, nil)
		}
	}
	return deeds("group "+group+", "+topic.Name+"/", all, told, err)
}

// DeleteGroups deletes groups that have no members, and their offsets, and tells
// which it has.
func DeleteGroups(ctx context.Context, c consumer.Requestor, names []string) (gone []string, err error) {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = names
	resp, err := consumer.AskPieces[*kmsg.DeleteGroupsResponse](ctx, c, req)
	if resp == nil {
		return nil, err
	}
	told := map[string]error{}
	for _, g := range resp.Groups {
		told[g.Group] = refusal("group "+g.Group, g.ErrorCode, nil)
	}
	return deeds("group ", names, told, err)
}

// DeleteOffsets deletes what a group has committed of some partitions of a topic
// that none of its members reads, and tells of which it has.
func DeleteOffsets(ctx context.Context, c consumer.Requestor, group, topic string, partitions []int32) (gone []int32, err error) {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic = topic
	for _, id := range partitions {
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = id
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := consumer.Ask[*kmsg.OffsetDeleteResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	if err := refusal("group "+group, resp.ErrorCode, nil); err != nil {
		return nil, err
	}
	told := map[int32]error{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			told[p.Partition] = partitionRefusal("group "+group+", ", offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.ErrorCode, nil)
		}
	}
	return deeds("group "+group+", "+topic+"/", partitions, told, nil)
}
