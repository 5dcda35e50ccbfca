package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// fake is a cluster of brokers 1 to 3 with topics views, of three partitions, keys
// and __internal. Each log holds [10, 100), stable up to 90.
type fake struct {
	silent, down, fenced map[int32]bool // brokers
	leaderless           map[int32]bool // partitions
	move                 *Placement     // one move under way, which adds brokers
	leader               bool           // there is an active controller

	refused map[string]*kerr.Error // topics, in metadata
	loading map[int32]*kerr.Error  // brokers, of their lists of groups
	dirs    kmsg.Response          // the log directories of all brokers; nil = one
	deed    kmsg.Response          // the answer to every other request
	failed  error                  // and the error beside it
}

func threeBrokers() *fake {
	return &fake{silent: map[int32]bool{}, down: map[int32]bool{}, fenced: map[int32]bool{}, leaderless: map[int32]bool{}, leader: true}
}

func (f *fake) Broker(id int32) consumer.Requestor { return fakeBroker{f, id} }

type fakeBroker struct {
	f  *fake
	id int32
}

func (b fakeBroker) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if b.f.silent[b.id] {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if b.f.down[b.id] {
		return nil, fmt.Errorf("%w: connection refused", consumer.ErrUnavailable)
	}
	if _, listed := req.(*kmsg.ListGroupsRequest); listed {
		resp := kmsg.NewPtrListGroupsResponse()
		if code := b.f.loading[b.id]; code != nil {
			resp.ErrorCode = code.Code
		}
		for _, name := range []string{"both", fmt.Sprintf("of broker %d", b.id)} {
			resp.Groups = append(resp.Groups, kmsg.ListGroupsResponseGroup{Group: name, GroupState: "Stable"})
		}
		return resp, nil
	}
	return b.f.Request(ctx, req)
}

func (f *fake) Request(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	switch r := req.(type) {
	case *kmsg.MetadataRequest:
		return f.metadata(r), nil
	case *kmsg.ListOffsetsRequest:
		return f.offsets(r), nil
	case *kmsg.DescribeLogDirsRequest:
		if f.dirs != nil {
			return f.dirs, nil
		}
		return f.logDirs(), nil
	case *kmsg.DescribeClusterRequest:
		resp := kmsg.NewPtrDescribeClusterResponse()
		resp.ClusterID, resp.ControllerID = "fake", 1
		for id := int32(3); id >= 1; id-- {
			resp.Brokers = append(resp.Brokers, kmsg.DescribeClusterResponseBroker{NodeID: id, Host: "127.0.0.1", Port: 9092 + id, IsFenced: f.fenced[id]})
		}
		return resp, nil
	case *kmsg.ListPartitionReassignmentsRequest:
		resp := kmsg.NewPtrListPartitionReassignmentsResponse()
		if f.move != nil {
			resp.Topics = []kmsg.ListPartitionReassignmentsResponseTopic{{Topic: f.move.Topic, Partitions: []kmsg.ListPartitionReassignmentsResponseTopicPartition{{Partition: f.move.Partition, AddingReplicas: f.move.Replicas}}}}
		}
		return resp, nil
	case *kmsg.DescribeQuorumRequest:
		return f.quorum(), nil
	case *kmsg.ApiVersionsRequest:
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: formatFeature, MaxVersionLevel: 1}}
		resp.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: formatFeature, MaxVersion: 2}}
		return resp, nil
	}
	if f.deed == nil && f.failed == nil {
		return nil, errors.New("the fake knows no such request")
	}
	return f.deed, f.failed
}

func (f *fake) quorum() kmsg.Response {
	resp := kmsg.NewPtrDescribeQuorumResponse()
	if !f.leader {
		resp.ErrorCode = kerr.NotLeaderForPartition.Code
		return resp
	}
	type state = kmsg.DescribeQuorumResponseTopicPartitionReplicaState
	resp.Topics = []kmsg.DescribeQuorumResponseTopic{{Partitions: []kmsg.DescribeQuorumResponseTopicPartition{{
		LeaderID: 1, LeaderEpoch: 4, HighWatermark: 50,
		CurrentVoters: []state{{ReplicaID: 1, LogEndOffset: 50}, {ReplicaID: 2, LogEndOffset: -1}},
		Observers:     []state{{ReplicaID: 3, LogEndOffset: 40}},
	}}}}
	return resp
}

var fakeTopics = map[string]int{"views": 3, "keys": 1, "__internal": 1}

func (f *fake) metadata(r *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	for id := int32(3); id >= 1; id-- {
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: id, Host: "127.0.0.1", Port: 9092 + id})
	}
	asked := []string{"views", "keys", "__internal"}
	if r.Topics != nil {
		asked = nil
		for _, t := range r.Topics {
			asked = append(asked, *t.Topic)
		}
	}
	for _, name := range asked {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID, t.IsInternal = &name, [16]byte{byte(len(name))}, name == "__internal"
		if fakeTopics[name] == 0 {
			t.ErrorCode = kerr.UnknownTopicOrPartition.Code
		}
		if code := f.refused[name]; code != nil {
			t.ErrorCode = code.Code
			resp.Topics = append(resp.Topics, t)
			continue
		}
		for i := range int32(fakeTopics[name]) {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader, p.Replicas = i, i+1, []int32{i + 1, (i+1)%3 + 1}
			p.ISR = slices.Clone(p.Replicas)
			if f.leaderless[i] {
				p.Leader = -1
			}
			t.Partitions = append(t.Partitions, p)
		}
		slices.Reverse(t.Partitions) // brokers answer in any order
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (f *fake) offsets(r *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, t := range r.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			told := kmsg.NewListOffsetsResponseTopicPartition()
			told.Partition = p.Partition
			switch {
			case f.leaderless[p.Partition]:
				told.ErrorCode, told.Offset = kerr.LeaderNotAvailable.Code, -1
			case p.Timestamp == consumer.Earliest:
				told.Offset = 10
			case p.Timestamp == consumer.Latest && r.IsolationLevel == 1:
				told.Offset = 90
			case p.Timestamp == consumer.Latest:
				told.Offset = 100
			case p.Partition == 0:
				told.Offset = 10 * p.Timestamp
			default:
				told.Offset = -1
			}
			out.Partitions = append(out.Partitions, told)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// logDirs are those of a broker that holds all copies.
func (f *fake) logDirs() kmsg.Response {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.UsableBytes, dir.TotalBytes = 7, 9
	t := kmsg.NewDescribeLogDirsResponseDirTopic()
	t.Topic = "views"
	for i := range int32(3) {
		t.Partitions = append(t.Partitions, kmsg.DescribeLogDirsResponseDirTopicPartition{Partition: i, Size: 1000 * max(1, int64(i))})
	}
	dir.Topics = append(dir.Topics, t)
	resp.Dirs = append(resp.Dirs, dir)
	return resp
}
