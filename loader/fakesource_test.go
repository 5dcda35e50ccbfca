package loader

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/consumer"
	"sawlog/offsets"
)

// fakeSource is a cluster in memory that answers what planning and reading ask.
type fakeSource struct {
	mu      sync.Mutex
	topics  []*sourceTopic
	groups  map[string]int64  // "group topic/partition" → offset
	configs map[string]string // "topic name" → value, as they were altered
	// refuse, if set, may fail a request.
	refuse func(kmsg.Request) error
}

type sourceTopic struct {
	name       string
	id         offsets.TopicID
	policy     string
	partitions []*sourceLog
}

type sourceLog struct {
	start, stable, end offsets.Offset
	batches            []record.Batch
	size               int64
}

func newFakeSource(name string, partitions int) *fakeSource {
	s := &fakeSource{groups: map[string]int64{}, configs: map[string]string{}}
	s.topic(name, partitions)
	return s
}

func (s *fakeSource) topic(name string, partitions int) *sourceTopic {
	t := &sourceTopic{name: name, policy: "delete"}
	copy(t.id[:], name+"----------------")
	for range partitions {
		t.partitions = append(t.partitions, &sourceLog{})
	}
	s.topics = append(s.topics, t)
	return t
}

func (s *fakeSource) log(topic string, partition int32) *sourceLog {
	for _, t := range s.topics {
		if t.name == topic && int(partition) < len(t.partitions) {
			return t.partitions[partition]
		}
	}
	return nil
}

// put appends records, batches of at most n.
func (l *sourceLog) put(t testing.TB, n int, codec record.Codec, recs ...record.Record) {
	t.Helper()
	for part := range slices.Chunk(recs, n) {
		w := record.NewBuilder(codec, record.DefaultLevel)
		for _, r := range part {
			w.Append(r)
		}
		b, err := w.Batch()
		if err != nil {
			t.Fatal(err)
		}
		l.add(b)
	}
}

func (l *sourceLog) add(b record.Batch) {
	b.Stamp(l.end, 0)
	l.batches = append(l.batches, b)
	l.end = b.LastOffset() + 1
	l.stable = l.end
	l.size += int64(len(b))
}

// lines makes records of values, all of one timestamp.
func lines(values ...string) []record.Record {
	var out []record.Record
	for _, v := range values {
		out = append(out, record.Record{Timestamp: 1_700_000_000_000, Value: []byte(v)})
	}
	return out
}

func (s *fakeSource) Broker(int32) consumer.Requestor { return s }

func (s *fakeSource) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.refuse != nil {
		if err := s.refuse(req); err != nil {
			return nil, err
		}
	}
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		return s.metadata(req), nil
	case *kmsg.ListOffsetsRequest:
		return s.listOffsets(req), nil
	case *kmsg.FetchRequest:
		return s.fetch(req), nil
	case *kmsg.DescribeConfigsRequest:
		resp := kmsg.NewPtrDescribeConfigsResponse()
		for _, t := range s.topics {
			r := kmsg.NewDescribeConfigsResponseResource()
			conf := kmsg.NewDescribeConfigsResponseResourceConfig()
			r.ResourceName, conf.Name, conf.Value = t.name, "cleanup.policy", new(t.policy)
			r.Configs = append(r.Configs, conf)
			resp.Resources = append(resp.Resources, r)
		}
		return resp, nil
	case *kmsg.DescribeLogDirsRequest:
		resp := kmsg.NewPtrDescribeLogDirsResponse()
		dir := kmsg.NewDescribeLogDirsResponseDir()
		for _, t := range s.topics {
			dt := kmsg.NewDescribeLogDirsResponseDirTopic()
			dt.Topic = t.name
			for i, l := range t.partitions {
				dp := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
				dp.Partition, dp.Size = int32(i), l.size
				dt.Partitions = append(dt.Partitions, dp)
			}
			dir.Topics = append(dir.Topics, dt)
		}
		resp.Dirs = append(resp.Dirs, dir)
		return resp, nil
	case *kmsg.IncrementalAlterConfigsRequest:
		for _, r := range req.Resources {
			for _, c := range r.Configs {
				s.configs[r.ResourceName+" "+c.Name] = *c.Value
			}
		}
		return kmsg.NewPtrIncrementalAlterConfigsResponse(), nil
	case *kmsg.OffsetFetchRequest:
		return s.offsetFetch(req), nil
	case *kmsg.OffsetCommitRequest:
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				s.groups[req.Group+" "+offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}.String()] = p.Offset
			}
		}
		return kmsg.NewPtrOffsetCommitResponse(), nil
	}
	return nil, errors.New("source: request not known")
}

func (s *fakeSource) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	resp.ClusterID = new("source")
	for _, t := range s.topics {
		if req.Topics != nil && !slices.ContainsFunc(req.Topics, func(r kmsg.MetadataRequestTopic) bool { return *r.Topic == t.name }) {
			continue
		}
		mt := kmsg.NewMetadataResponseTopic()
		mt.Topic, mt.TopicID = new(t.name), t.id
		for i := range t.partitions {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader, p.LeaderEpoch = int32(i), 1, 0
			mt.Partitions = append(mt.Partitions, p)
		}
		resp.Topics = append(resp.Topics, mt)
	}
	return resp
}

func (s *fakeSource) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition = p.Partition
			l := s.log(t.Topic, p.Partition)
			switch {
			case p.Timestamp == -2:
				rp.Offset = int64(l.start)
			case p.Timestamp == -1 && req.IsolationLevel == 1:
				rp.Offset = int64(l.stable)
			case p.Timestamp == -1:
				rp.Offset = int64(l.end)
			default:
				rp.Offset = l.offsetForTime(p.Timestamp)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (l *sourceLog) offsetForTime(ms int64) int64 {
	var it record.Iterator
	for _, b := range l.batches {
		if it.Reset(b) != nil {
			continue
		}
		for it.Next() {
			if r := it.Record(); r.Timestamp >= ms && r.Offset >= l.start {
				return int64(r.Offset)
			}
		}
	}
	return -1
}

func (s *fakeSource) fetch(req *kmsg.FetchRequest) kmsg.Response {
	resp := kmsg.NewPtrFetchResponse()
	t, p := req.Topics[0], req.Topics[0].Partitions[0]
	rt := kmsg.NewFetchResponseTopic()
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition = p.Partition
	l := s.log(t.Topic, p.Partition)
	at := offsets.Offset(p.FetchOffset)
	switch {
	case l == nil:
		rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
	case at < l.start || at > l.end:
		rp.ErrorCode = kerr.OffsetOutOfRange.Code
	default:
		rp.LogStartOffset = int64(l.start)
		first, _ := slices.BinarySearchFunc(l.batches, at, func(b record.Batch, at offsets.Offset) int { return int(b.LastOffset() - at) })
		for _, b := range l.batches[first:] {
			if len(rp.RecordBatches) > 0 && len(rp.RecordBatches)+len(b) > int(p.PartitionMaxBytes) {
				break
			}
			rp.RecordBatches = append(rp.RecordBatches, b...)
		}
	}
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	return resp
}

func (s *fakeSource) offsetFetch(req *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetFetchResponse()
	g := kmsg.NewOffsetFetchResponseGroup()
	for _, t := range req.Groups[0].Topics {
		gt := kmsg.NewOffsetFetchResponseGroupTopic()
		gt.Topic = t.Topic
		for _, p := range t.Partitions {
			gp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			gp.Partition, gp.Offset = p, -1
			if at, ok := s.groups[req.Group+" "+offsets.TopicPartition{Topic: t.Topic, Partition: p}.String()]; ok {
				gp.Offset = at
			}
			gt.Partitions = append(gt.Partitions, gp)
		}
		g.Topics = append(g.Topics, gt)
	}
	resp.Groups = append(resp.Groups, g)
	return resp
}
