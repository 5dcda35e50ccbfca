package consumer

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// fakeCluster is a cluster in memory: one topic log per partition, each with a
// leader, and hooks to make it misbehave.
type fakeCluster struct {
	mu      sync.Mutex
	id      string
	topics  []*fakeTopic
	leader  int32
	epoch   int32
	fetches int
	// follower serves fetches, too; asked is who was asked last.
	follower, asked int32
	// onFetch may change an answer; n counts fetches from 1.
	onFetch func(n int, req *kmsg.FetchRequest, p *kmsg.FetchResponseTopicPartition)
	// down makes every request to that broker fail.
	down map[int32]bool
	// brokers are those in service besides the leader; behind says under which id each
	// knows all topics, zero = it knows none.
	brokers []int32
	behind  map[int32]offsets.TopicID
	// leaderless are partitions of which no leader is in service.
	leaderless map[int32]bool
	committed  map[string]int64
	// refuse gives the code of a partition at commit number n; nil = none is refused.
	refuse    func(at offsets.TopicPartition, n int) int16
	omitted   map[offsets.TopicPartition]bool // are left out of answers to commits
	commits   int
	configErr int16
	configs   map[string]string // of topics, as they were set last
}

type fakeTopic struct {
	name       string
	id         offsets.TopicID
	policy     string
	partitions []*fakeLog
}

type fakeLog struct {
	start, stable, end offsets.Offset
	batches            []record.Batch
	aborted            []abortedTxn
	size               int64
}

func newFake(policy string) (*fakeCluster, *fakeLog) {
	log := &fakeLog{}
	t := &fakeTopic{name: "views", id: offsets.TopicID{1, 2, 3}, policy: policy, partitions: []*fakeLog{log}}
	return &fakeCluster{id: "fake", topics: []*fakeTopic{t}, leader: 1, epoch: 3, down: map[int32]bool{}}, log
}

// abortedTxn spans its first record and its marker.
type abortedTxn struct {
	producer    int64
	first, last offsets.Offset
}

// add appends a batch at an offset and moves the ends behind it.
func (l *fakeLog) add(b record.Batch, at offsets.Offset) {
	b.Stamp(at, 3)
	l.batches = append(l.batches, b)
	l.end = b.LastOffset() + 1
	l.stable = l.end
	l.size += int64(len(b))
}

func (c *fakeCluster) Broker(id int32) Requestor { return fakeBroker{c, id} }

type fakeBroker struct {
	c  *fakeCluster
	id int32
}

var errDown = errors.Join(ErrUnavailable, errors.New("connection refused"))

func (b fakeBroker) Request(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.c.down[b.id] {
		return nil, errDown
	}
	return b.c.answer(b.id, req)
}

func (c *fakeCluster) Request(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answer(c.leader, req)
}

func (c *fakeCluster) log(topic string, partition int32) *fakeLog {
	for _, t := range c.topics {
		if t.name == topic && int(partition) < len(t.partitions) {
			return t.partitions[partition]
		}
	}
	return nil
}

func (c *fakeCluster) answer(from int32, req kmsg.Request) (kmsg.Response, error) {
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		return c.metadata(from, req), nil
	case *kmsg.ListOffsetsRequest:
		return c.listOffsets(req), nil
	case *kmsg.FetchRequest:
		return c.fetch(from, req), nil
	case *kmsg.DescribeConfigsRequest:
		resp := kmsg.NewPtrDescribeConfigsResponse()
		for _, r := range req.Resources {
			rr := kmsg.NewDescribeConfigsResponseResource()
			rr.ResourceName = r.ResourceName
			for _, t := range c.topics {
				if t.name == r.ResourceName {
					conf := kmsg.NewDescribeConfigsResponseResourceConfig()
					conf.Name, conf.Value = "cleanup.policy", new(t.policy)
					rr.Configs = append(rr.Configs, conf)
				}
			}
			resp.Resources = append(resp.Resources, rr)
		}
		return resp, nil
	case *kmsg.DescribeLogDirsRequest:
		return c.logDirs(), nil
	case *kmsg.OffsetFetchRequest:
		return c.offsetFetch(req), nil
	case *kmsg.OffsetCommitRequest:
		return c.offsetCommit(req), nil
	case *kmsg.IncrementalAlterConfigsRequest:
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		c.configs = map[string]string{}
		for _, r := range req.Resources {
			for _, conf := range r.Configs {
				c.configs[conf.Name] = deref(conf.Value)
			}
		}
		rr := kmsg.NewIncrementalAlterConfigsResponseResource()
		rr.ErrorCode = c.configErr
		resp.Resources = append(resp.Resources, rr)
		return resp, nil
	}
	return nil, errors.New("fake: request not known")
}

func (c *fakeCluster) metadata(from int32, req *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	resp.ClusterID = new(c.id)
	for _, id := range append(c.brokers, c.leader) {
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: id, Host: "127.0.0.1", Port: 9092 + id})
	}
	known, behind := c.behind[from]
	for _, t := range c.topics {
		if behind && known.IsZero() {
			break
		}
		asked := req.Topics == nil || slices.ContainsFunc(req.Topics, func(r kmsg.MetadataRequestTopic) bool { return *r.Topic == t.name })
		if !asked {
			continue
		}
		mt := kmsg.NewMetadataResponseTopic()
		mt.Topic, mt.TopicID, mt.IsInternal = new(t.name), t.id, strings.HasPrefix(t.name, "__")
		if behind {
			mt.TopicID = known
		}
		for i := range t.partitions {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader, p.LeaderEpoch = int32(i), c.leader, c.epoch
			if c.leaderless[int32(i)] {
				p.Leader, p.ErrorCode = -1, kerr.LeaderNotAvailable.Code
			}
			mt.Partitions = append(mt.Partitions, p)
		}
		resp.Topics = append(resp.Topics, mt)
	}
	for _, r := range req.Topics {
		if !slices.ContainsFunc(resp.Topics, func(t kmsg.MetadataResponseTopic) bool { return *t.Topic == *r.Topic }) {
			mt := kmsg.NewMetadataResponseTopic()
			mt.Topic, mt.ErrorCode = r.Topic, kerr.UnknownTopicOrPartition.Code
			resp.Topics = append(resp.Topics, mt)
		}
	}
	return resp
}

func (c *fakeCluster) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition = p.Partition
			l := c.log(t.Topic, p.Partition)
			switch {
			case l == nil:
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case p.Timestamp == Earliest:
				rp.Offset = int64(l.start)
			case p.Timestamp == Latest && req.IsolationLevel == 1:
				rp.Offset = int64(l.stable)
			case p.Timestamp == Latest:
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

func (l *fakeLog) offsetForTime(ms int64) int64 {
	for _, b := range l.batches {
		var it record.Iterator
		if it.Reset(b) != nil {
			continue
		}
		for it.Next() {
			if r := it.Record(); r.Timestamp >= ms && r.Offset >= l.start && r.Offset < l.stable {
				return int64(r.Offset)
			}
		}
	}
	return -1
}

func (c *fakeCluster) fetch(from int32, req *kmsg.FetchRequest) kmsg.Response {
	c.fetches++
	c.asked = from
	resp := kmsg.NewPtrFetchResponse()
	t, p := req.Topics[0], req.Topics[0].Partitions[0]
	rt := kmsg.NewFetchResponseTopic()
	rt.Topic, rt.TopicID = t.Topic, t.TopicID
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition = p.Partition
	l := c.log(t.Topic, p.Partition)
	switch {
	case l == nil:
		rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
	case from != c.leader && from != c.follower:
		rp.ErrorCode = kerr.NotLeaderForPartition.Code
	case p.CurrentLeaderEpoch >= 0 && p.CurrentLeaderEpoch < c.epoch:
		rp.ErrorCode = kerr.FencedLeaderEpoch.Code
	case offsets.Offset(p.FetchOffset) < l.start || offsets.Offset(p.FetchOffset) > l.end:
		rp.ErrorCode = kerr.OffsetOutOfRange.Code
	default:
		l.fill(&rp, offsets.Offset(p.FetchOffset), int(p.PartitionMaxBytes), req.IsolationLevel == 1)
	}
	if c.onFetch != nil {
		c.onFetch(c.fetches, req, &rp)
	}
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	return resp
}

func (l *fakeLog) fill(rp *kmsg.FetchResponseTopicPartition, at offsets.Offset, most int, committed bool) {
	rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = int64(l.end), int64(l.stable), int64(l.start)
	limit := l.end
	if committed {
		limit = l.stable
	}
	rp.RecordBatches = []byte{}
	upper := at
	for _, b := range l.batches {
		if b.LastOffset() < at || b.BaseOffset() >= limit {
			continue
		}
		if len(rp.RecordBatches) > 0 && len(rp.RecordBatches)+len(b) > most {
			break
		}
		rp.RecordBatches = append(rp.RecordBatches, b...)
		upper = b.LastOffset()
	}
	for _, a := range l.aborted {
		if committed && a.first <= upper && a.last >= at {
			rp.AbortedTransactions = append(rp.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: a.producer, FirstOffset: int64(a.first)})
		}
	}
}

func (c *fakeCluster) logDirs() kmsg.Response {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	dir := kmsg.NewDescribeLogDirsResponseDir()
	for _, t := range c.topics {
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
	return resp
}

func (c *fakeCluster) offsetFetch(req *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetFetchResponse()
	g := kmsg.NewOffsetFetchResponseGroup()
	g.Group = req.Groups[0].Group
	for _, t := range req.Groups[0].Topics {
		gt := kmsg.NewOffsetFetchResponseGroupTopic()
		gt.Topic, gt.TopicID = "", t.TopicID // as version 10 answers
		for _, p := range t.Partitions {
			gp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			gp.Partition, gp.Offset = p, -1
			if at, ok := c.committed[offsets.TopicPartition{Topic: t.Topic, Partition: p}.String()]; ok {
				gp.Offset = at
			}
			gt.Partitions = append(gt.Partitions, gp)
		}
		g.Topics = append(g.Topics, gt)
	}
	resp.Groups = append(resp.Groups, g)
	return resp
}

func (c *fakeCluster) offsetCommit(req *kmsg.OffsetCommitRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetCommitResponse()
	c.commits++
	if c.committed == nil {
		c.committed = map[string]int64{}
	}
	for _, t := range req.Topics {
		told := kmsg.NewOffsetCommitResponseTopic()
		told.Topic, told.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			at := offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			if c.omitted[at] {
				continue
			}
			one := kmsg.NewOffsetCommitResponseTopicPartition()
			if one.Partition = p.Partition; c.refuse != nil {
				one.ErrorCode = c.refuse(at, c.commits)
			}
			if told.Partitions = append(told.Partitions, one); one.ErrorCode == 0 {
				c.committed[at.String()] = p.Offset
			}
		}
		resp.Topics = append(resp.Topics, told)
	}
	return resp
}

// records makes a batch of n records "k<i>" at 1000+i ms.
func records(t *testing.T, n int, codec record.Codec, change ...func(*record.Builder)) record.Batch {
	t.Helper()
	w := record.NewBuilder(codec, record.DefaultLevel)
	for _, c := range change {
		c(w)
	}
	for i := range n {
		w.Append(record.Record{Timestamp: 1000 + int64(i), Key: []byte{'k', byte('0' + i%10)}, Value: []byte("value")})
	}
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func transactional(id int64) func(*record.Builder) {
	return func(w *record.Builder) {
		w.Producer(id, 0, 0)
		w.Transactional(true)
	}
}

func marker(t *testing.T, commit bool, id int64) record.Batch {
	t.Helper()
	b, err := record.Marker(commit, id, 0, 1, 2000)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compacted makes a batch whose records have the given offset deltas, and whose
// last offset delta is last.
func compacted(t *testing.T, last int32, deltas ...int64) record.Batch {
	t.Helper()
	var body []byte
	for _, d := range deltas {
		one := []byte{0} // attributes
		one = binary.AppendVarint(one, d)
		one = binary.AppendVarint(one, d)
		one = binary.AppendVarint(one, 1)
		one = append(one, 'k')
		one = binary.AppendVarint(one, 1)
		one = append(one, 'v')
		one = binary.AppendVarint(one, 0)
		body = append(binary.AppendVarint(body, int64(len(one))), one...)
	}
	b := append(slices.Clone(records(t, 1, record.None)[:record.HeaderSize]), body...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[23:], uint32(last))
	binary.BigEndian.PutUint32(b[57:], uint32(len(deltas)))
	b.SetMaxTimestamp(5000, false)
	return b
}
