package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

// brokers is a cluster that answers from memory: what a real one can't be brought
// to in a test, and as large as it is asked to be.
type brokers struct {
	topics []kmsg.MetadataResponseTopic
	groups int
	fenced map[int32]bool // brokers out of service
	silent map[int32]bool // brokers that never answer
	moves  kmsg.ListPartitionReassignmentsResponse
	log    []record.Batch // of every partition
	codes  []int16        // of deeds, in turn of what they are done to; none = no deed is known
}

func (b *brokers) Broker(id int32) consumer.Requestor { return oneBroker{b, id} }

// Rack makes readers look for replicas nearby, of which there are none.
func (b *brokers) Timeout() time.Duration { return time.Second }

type oneBroker struct {
	b  *brokers
	id int32
}

func (o oneBroker) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if o.b.silent[o.id] {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return o.b.Request(ctx, req)
}

// newBrokers makes topics of partitions that three brokers hold, so many copies.
func newBrokers(topics, partitions, copies int) *brokers {
	b := &brokers{fenced: map[int32]bool{}, silent: map[int32]bool{}}
	for i := range topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID = new(fmt.Sprintf("topic-%03d", i)), [16]byte{1, byte(i >> 8), byte(i)}
		for p := range partitions {
			part := kmsg.NewMetadataResponseTopicPartition()
			part.Partition, part.Leader, part.LeaderEpoch = int32(p), int32(p%3+1), 1
			for c := range copies {
				part.Replicas = append(part.Replicas, int32((p+c)%3+1))
			}
			part.ISR = slices.Clone(part.Replicas)
			t.Partitions = append(t.Partitions, part)
		}
		b.topics = append(b.topics, t)
	}
	return b
}

func (b *brokers) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch r := req.(type) {
	case *kmsg.MetadataRequest:
		return b.metadata(r), nil
	case *kmsg.ListOffsetsRequest:
		return b.offsets(r), nil
	case *kmsg.DescribeLogDirsRequest:
		return b.logDirs(r), nil
	case *kmsg.DescribeConfigsRequest:
		return b.configs(r), nil
	case *kmsg.DescribeClusterRequest:
		return b.cluster(), nil
	case *kmsg.ListPartitionReassignmentsRequest:
		return &b.moves, nil
	case *kmsg.DescribeQuorumRequest:
		resp := kmsg.NewPtrDescribeQuorumResponse()
		resp.ErrorCode = kerr.NotLeaderForPartition.Code
		return resp, nil
	case *kmsg.ApiVersionsRequest:
		return kmsg.NewPtrApiVersionsResponse(), nil
	case *kmsg.ListGroupsRequest:
		resp := kmsg.NewPtrListGroupsResponse()
		for i := range b.groups {
			g := kmsg.NewListGroupsResponseGroup()
			g.Group, g.GroupState, g.ProtocolType = fmt.Sprintf("group-%04d", i), "Empty", "consumer"
			resp.Groups = append(resp.Groups, g)
		}
		return resp, nil
	case *kmsg.DescribeGroupsRequest:
		resp := kmsg.NewPtrDescribeGroupsResponse()
		for _, name := range r.Groups {
			g := kmsg.NewDescribeGroupsResponseGroup()
			g.Group, g.State = name, "Empty"
			resp.Groups = append(resp.Groups, g)
		}
		return resp, nil
	case *kmsg.OffsetFetchRequest:
		return b.committed(r), nil
	case *kmsg.FindCoordinatorRequest:
		resp := kmsg.NewPtrFindCoordinatorResponse()
		for _, key := range r.CoordinatorKeys {
			resp.Coordinators = append(resp.Coordinators, kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: 1})
		}
		return resp, nil
	case *kmsg.FetchRequest:
		return b.fetch(r), nil
	}
	if resp := b.deed(req); resp != nil && len(b.codes) > 0 {
		return resp, nil
	}
	return nil, fmt.Errorf("%T is not known here", req)
}

// deed does nothing, and says of it what the codes are; what is only checked is right.
func (b *brokers) deed(req kmsg.Request) kmsg.Response {
	codes := b.codes
	next := func(checks bool) (code int16) {
		if len(codes) > 0 && !checks {
			code = codes[0]
			codes = append(slices.Clone(codes[1:]), code)
		}
		return code
	}
	resp := req.ResponseKind()
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor, out.ErrorCode = r.Topics[0].Topic, 1, 1, next(r.ValidateOnly)
		resp.(*kmsg.CreateTopicsResponse).Topics = []kmsg.CreateTopicsResponseTopic{out}
	case *kmsg.DeleteTopicsRequest:
		out := kmsg.NewDeleteTopicsResponseTopic()
		if out.TopicID, out.ErrorCode = r.Topics[0].TopicID, next(false); out.ErrorCode == 0 {
			b.topics = nil
		}
		resp.(*kmsg.DeleteTopicsResponse).Topics = []kmsg.DeleteTopicsResponseTopic{out}
	case *kmsg.CreatePartitionsRequest:
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic, out.ErrorCode = r.Topics[0].Topic, next(r.ValidateOnly)
		resp.(*kmsg.CreatePartitionsResponse).Topics = []kmsg.CreatePartitionsResponseTopic{out}
	case *kmsg.IncrementalAlterConfigsRequest:
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceName, out.ErrorCode = r.Resources[0].ResourceName, next(r.ValidateOnly)
		resp.(*kmsg.IncrementalAlterConfigsResponse).Resources = []kmsg.IncrementalAlterConfigsResponseResource{out}
	case *kmsg.DeleteRecordsRequest:
		t := kmsg.NewDeleteRecordsResponseTopic()
		t.Topic = r.Topics[0].Topic
		for _, p := range r.Topics[0].Partitions {
			out := kmsg.NewDeleteRecordsResponseTopicPartition()
			out.Partition, out.LowWatermark, out.ErrorCode = p.Partition, p.Offset, next(false)
			t.Partitions = append(t.Partitions, out)
		}
		resp.(*kmsg.DeleteRecordsResponse).Topics = []kmsg.DeleteRecordsResponseTopic{t}
	case *kmsg.DeleteGroupsRequest:
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group, out.ErrorCode = r.Groups[0], next(false)
		resp.(*kmsg.DeleteGroupsResponse).Groups = []kmsg.DeleteGroupsResponseGroup{out}
	case *kmsg.OffsetDeleteRequest:
		t := kmsg.NewOffsetDeleteResponseTopic()
		t.Topic = r.Topics[0].Topic
		for _, p := range r.Topics[0].Partitions {
			out := kmsg.NewOffsetDeleteResponseTopicPartition()
			out.Partition, out.ErrorCode = p.Partition, next(false)
			t.Partitions = append(t.Partitions, out)
		}
		resp.(*kmsg.OffsetDeleteResponse).Topics = []kmsg.OffsetDeleteResponseTopic{t}
	case *kmsg.OffsetCommitRequest:
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.TopicID = r.Topics[0].Topic, r.Topics[0].TopicID
		for _, p := range r.Topics[0].Partitions {
			out := kmsg.NewOffsetCommitResponseTopicPartition()
			out.Partition, out.ErrorCode = p.Partition, next(false)
			t.Partitions = append(t.Partitions, out)
		}
		resp.(*kmsg.OffsetCommitResponse).Topics = []kmsg.OffsetCommitResponseTopic{t}
	default:
		return nil
	}
	return resp
}

func (b *brokers) metadata(r *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	for id := int32(1); id <= 3; id++ {
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: id, Host: "127.0.0.1", Port: 9091 + id})
	}
	if r.Topics == nil {
		resp.Topics = b.topics
	}
	for _, asked := range r.Topics {
		i := slices.IndexFunc(b.topics, func(t kmsg.MetadataResponseTopic) bool { return *t.Topic == *asked.Topic })
		if i < 0 {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic, t.ErrorCode = asked.Topic, kerr.UnknownTopicOrPartition.Code
			resp.Topics = append(resp.Topics, t)
			continue
		}
		resp.Topics = append(resp.Topics, b.topics[i])
	}
	return resp
}

// ends are where the logs of the fake end: after its batches, or at 1000.
func (b *brokers) end() int64 {
	if n := len(b.log); n > 0 {
		return int64(b.log[n-1].LastOffset()) + 1
	}
	return 1000
}

func (b *brokers) offsets(r *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, t := range r.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition, part.Offset = p.Partition, b.end()
			if p.Timestamp == consumer.Earliest {
				part.Offset = 0
			}
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (b *brokers) logDirs(r *kmsg.DescribeLogDirsRequest) *kmsg.DescribeLogDirsResponse {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	dir := kmsg.NewDescribeLogDirsResponseDir()
	for _, t := range r.Topics {
		out := kmsg.NewDescribeLogDirsResponseDirTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			part.Partition, part.Size = p, 1<<20
			out.Partitions = append(out.Partitions, part)
		}
		dir.Topics = append(dir.Topics, out)
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp
}

func (b *brokers) configs(r *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for _, asked := range r.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceName = asked.ResourceName
		for name, value := range map[string]string{"cleanup.policy": "delete", "retention.ms": "604800000", admin.MinISR: "2"} {
			c := kmsg.NewDescribeConfigsResponseResourceConfig()
			c.Name, c.Value, c.Source = name, &value, kmsg.ConfigSourceDefaultConfig
			out.Configs = append(out.Configs, c)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

func (b *brokers) cluster() *kmsg.DescribeClusterResponse {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterID, resp.ControllerID = "fake", 1
	for id := int32(1); id <= 3; id++ {
		broker := kmsg.NewDescribeClusterResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.IsFenced = id, "127.0.0.1", 9091+id, b.fenced[id]
		resp.Brokers = append(resp.Brokers, broker)
	}
	return resp
}

// committed has every group stand at 900 on the first partitions of a topic.
func (b *brokers) committed(r *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	for i, asked := range r.Groups {
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group = asked.Group
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		of := b.topics[i%len(b.topics)]
		t.Topic = *of.Topic
		for _, p := range of.Partitions {
			part := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			part.Partition, part.Offset = p.Partition, 900
			t.Partitions = append(t.Partitions, part)
		}
		g.Topics = append(g.Topics, t)
		resp.Groups = append(resp.Groups, g)
	}
	return resp
}

// fetch answers with one batch, the first that reaches the offset.
func (b *brokers) fetch(r *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	asked := &r.Topics[0].Partitions[0]
	t := kmsg.NewFetchResponseTopic()
	t.Topic, t.TopicID = r.Topics[0].Topic, r.Topics[0].TopicID
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.HighWatermark, p.LogStartOffset = asked.Partition, b.end(), 0
	for _, batch := range b.log {
		if int64(batch.LastOffset()) >= asked.FetchOffset {
			p.RecordBatches = batch
			break
		}
	}
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	return resp
}

// batch is one record at an offset.
func batch(at int64, millis int64, value string) record.Batch {
	b := record.NewBuilder(record.None, 0)
	b.Append(record.Record{Timestamp: millis, Value: []byte(value)})
	out, err := b.Batch()
	if err != nil {
		panic(err)
	}
	out.Stamp(offsets.Offset(at), 1)
	return out
}
