package consumer

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// Topic is a topic as a cluster describes it.
type Topic struct {
	Name       string
	ID         offsets.TopicID // zero when the cluster knows none
	Internal   bool
	Compact    bool // cleanup.policy names compact
	Partitions []Partition
}

// Partition is a partition of a Topic; LogStart ≤ LastStable ≤ HighWatermark.
type Partition struct {
	Index         int32
	Leader        offsets.BrokerID
	Epoch         offsets.Epoch
	LogStart      offsets.Offset
	LastStable    offsets.Offset
	HighWatermark offsets.Offset
	Size          int64 // bytes of its largest replica; -1 = not told
}

// Describe describes the topics named (or, with a pattern, those whose name it
// matches, internal ones left out) in order of name, and says the id of the
// cluster.
func Describe(ctx context.Context, c Cluster, names []string, pattern string) ([]Topic, string, error) {
	return DescribeSure(ctx, c, names, pattern, func([]Topic, string) error { return nil })
}

// DescribeSure is Describe by someone who knows better than a broker that was
// cut off: as long as sure answers with a ShortError, others are asked, for ten
// seconds at most.
func DescribeSure(ctx context.Context, c Cluster, names []string, pattern string, sure func(topics []Topic, cluster string) error) ([]Topic, string, error) {
	var match *regexp.Regexp
	if pattern != "" {
		var err error
		if match, err = regexp.Compile(pattern); err != nil {
			return nil, "", fmt.Errorf("topic pattern %q: %w", pattern, err)
		}
	}
	var topics []Topic
	var cluster string
	err := retry(ctx, patience(c), func(ctx context.Context) (err error) {
		if topics, cluster, err = metadata(ctx, c, names, match); err != nil {
			return err
		}
		if err := led(topics); err != nil {
			return err
		}
		if err := positions(ctx, c, topics); err != nil {
			return err
		}
		if err := sure(topics, cluster); err != nil {
			return err
		}
		if err := policies(ctx, c, topics); err != nil {
			return err
		}
		return sizes(ctx, c, topics)
	})
	if err != nil {
		return nil, "", err
	}
	return topics, cluster, nil
}

// metadata asks for the topics and the leaders of their partitions, which may be
// noLeader.
func metadata(ctx context.Context, c Cluster, names []string, match *regexp.Regexp) ([]Topic, string, error) {
	req := kmsg.NewPtrMetadataRequest()
	if match == nil {
		req.Topics = []kmsg.MetadataRequestTopic{}
		for _, name := range names {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = new(name)
			req.Topics = append(req.Topics, t)
		}
	}
	got, err := c.Request(ctx, req)
	if err != nil {
		return nil, "", err
	}
	resp, ok := got.(*kmsg.MetadataResponse)
	if !ok {
		return nil, "", fmt.Errorf("metadata answered by %T", got)
	}
	var topics []Topic
	for i := range resp.Topics {
		mt := &resp.Topics[i]
		name := deref(mt.Topic)
		if match != nil && (mt.IsInternal || !match.MatchString(name)) {
			continue
		}
		t, err := topicOf(name, mt)
		if err != nil {
			return nil, "", err
		}
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range names {
		if !slices.ContainsFunc(topics, func(t Topic) bool { return t.Name == name }) {
			return nil, "", fmt.Errorf("%w: %s", ErrUnknownTopic, name)
		}
	}
	if match != nil && len(topics) == 0 {
		return nil, "", fmt.Errorf("%w: none matches %s", ErrUnknownTopic, match)
	}
	return topics, deref(resp.ClusterID), nil
}

// noLeader stands for the leader of a partition that has none.
const noLeader offsets.BrokerID = -1

// led is an error while a partition of the topics has no leader.
func led(topics []Topic) error {
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.Leader == noLeader {
				return leaderless(offsets.TopicPartition{Topic: t.Name, Partition: p.Index})
			}
		}
	}
	return nil
}

func leaderless(tp offsets.TopicPartition) error {
	return fmt.Errorf("%s: %w", tp, classifyCode(kerr.LeaderNotAvailable))
}

func topicOf(name string, mt *kmsg.MetadataResponseTopic) (Topic, error) {
	if err := codeError(mt.ErrorCode); err != nil {
		return Topic{}, fmt.Errorf("topic %s: %w", name, err)
	}
	t := Topic{Name: name, ID: mt.TopicID, Internal: mt.IsInternal}
	for _, p := range mt.Partitions {
		t.Partitions = append(t.Partitions, Partition{
			Index: p.Partition, Leader: max(offsets.BrokerID(p.Leader), noLeader), Epoch: offsets.Epoch(p.LeaderEpoch), Size: -1,
		})
	}
	slices.SortFunc(t.Partitions, func(a, b Partition) int { return int(a.Index - b.Index) })
	return t, nil
}

// The timestamps ListOffsets takes for places in the log.
const (
	listLatest   = -1
	listEarliest = -2
)

// positions fills log starts, last stable offsets and high watermarks. They are
// asked for in this order, so that the invariant of Partition holds although
// the log moves on meanwhile.
func positions(ctx context.Context, c Requestor, topics []Topic) error {
	asks := []struct {
		at        int64
		committed bool
		set       func(p *Partition, o offsets.Offset)
	}{
		{listEarliest, false, func(p *Partition, o offsets.Offset) { p.LogStart = o }},
		{listLatest, true, func(p *Partition, o offsets.Offset) { p.LastStable = max(o, p.LogStart) }},
		{listLatest, false, func(p *Partition, o offsets.Offset) { p.HighWatermark = max(o, p.LastStable) }},
	}
	var tps []offsets.TopicPartition
	for _, t := range topics {
		for _, p := range t.Partitions {
			tps = append(tps, offsets.TopicPartition{Topic: t.Name, Partition: p.Index})
		}
	}
	for _, ask := range asks {
		found, err := listOffsets(ctx, c, tps, ask.at, ask.committed)
		if err != nil {
			return err
		}
		for i := range topics {
			for j := range topics[i].Partitions {
				p := &topics[i].Partitions[j]
				ask.set(p, found[offsets.TopicPartition{Topic: topics[i].Name, Partition: p.Index}])
			}
		}
	}
	return nil
}

// OffsetForTime is, per partition, the first offset whose record has a
// timestamp of ms or later; a partition without one is absent from the map.
func OffsetForTime(ctx context.Context, c Cluster, tps []offsets.TopicPartition, ms int64) (map[offsets.TopicPartition]offsets.Offset, error) {
	var found map[offsets.TopicPartition]offsets.Offset
	err := retry(ctx, patience(c), func(ctx context.Context) (err error) {
		found, err = listOffsets(ctx, c, tps, max(ms, 0), true)
		return err
	})
	return found, err
}

func listOffsets(ctx context.Context, c Requestor, tps []offsets.TopicPartition, at int64, committed bool) (map[offsets.TopicPartition]offsets.Offset, error) {
	found := make(map[offsets.TopicPartition]offsets.Offset, len(tps))
	if len(tps) == 0 {
		return found, nil
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if committed {
		req.IsolationLevel = 1
	}
	for _, tp := range tps {
		if len(req.Topics) == 0 || req.Topics[len(req.Topics)-1].Topic != tp.Topic {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = tp.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = tp.Partition, at
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	got, err := c.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, ok := got.(*kmsg.ListOffsetsResponse)
	if !ok {
		return nil, fmt.Errorf("list offsets answered by %T", got)
	}
	answered := 0
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			tp := offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			if err := codeError(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("%s: offsets: %w", tp, err)
			}
			answered++
			if p.Offset >= 0 {
				found[tp] = offsets.Offset(p.Offset)
			}
		}
	}
	if answered != len(tps) {
		return nil, fmt.Errorf("%w: %d of %d partitions told their offsets", ErrUnavailable, answered, len(tps))
	}
	return found, nil
}

// policies reads which topics are compacted. A cluster that does not tell
// leaves them uncompacted, under which holes are errors, not guesses.
func policies(ctx context.Context, c Cluster, topics []Topic) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, t.Name, []string{"cleanup.policy"}
		req.Resources = append(req.Resources, r)
	}
	got, err := c.Request(ctx, req)
	if err != nil {
		return ignoreRefusal(err)
	}
	resp, ok := got.(*kmsg.DescribeConfigsResponse)
	if !ok {
		return fmt.Errorf("describe configs answered by %T", got)
	}
	for _, r := range resp.Resources {
		for _, conf := range r.Configs {
			if conf.Name != "cleanup.policy" || !strings.Contains(deref(conf.Value), "compact") {
				continue
			}
			for i := range topics {
				topics[i].Compact = topics[i].Compact || topics[i].Name == r.ResourceName
			}
		}
	}
	return nil
}

// sizes fills the bytes of each partition, where the cluster tells. Only leaders
// are asked: a replica that is down must not keep a plan from being made.
func sizes(ctx context.Context, c Cluster, topics []Topic) error {
	led := map[offsets.BrokerID][]Topic{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			led[p.Leader] = withPartition(led[p.Leader], t.Name, p)
		}
	}
	all := byName(topics)
	for leader, theirs := range led {
		if err := sizesOf(ctx, c.Broker(int32(leader)), logDirs(theirs), all); err != nil {
			return err
		}
	}
	return nil
}

func byName(topics []Topic) map[string]*Topic {
	m := make(map[string]*Topic, len(topics))
	for i := range topics {
		m[topics[i].Name] = &topics[i]
	}
	return m
}

// logDirs asks for the sizes of all partitions of topics.
func logDirs(topics []Topic) *kmsg.DescribeLogDirsRequest {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	for _, t := range topics {
		rt := kmsg.NewDescribeLogDirsRequestTopic()
		rt.Topic = t.Name
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, p.Index)
		}
		req.Topics = append(req.Topics, rt)
	}
	return req
}

func sizesOf(ctx context.Context, leader Requestor, req *kmsg.DescribeLogDirsRequest, byName map[string]*Topic) error {
	got, err := leader.Request(ctx, req)
	if err != nil {
		return ignoreRefusal(err)
	}
	resp, ok := got.(*kmsg.DescribeLogDirsResponse)
	if !ok {
		return fmt.Errorf("describe log dirs answered by %T", got)
	}
	for _, dir := range resp.Dirs {
		for _, dt := range dir.Topics {
			t := byName[dt.Topic]
			for _, dp := range dt.Partitions {
				if t == nil || dp.IsFuture {
					continue
				}
				if i, ok := slices.BinarySearchFunc(t.Partitions, dp.Partition, func(p Partition, index int32) int { return int(p.Index - index) }); ok {
					t.Partitions[i].Size = max(t.Partitions[i].Size, dp.Size)
				}
			}
		}
	}
	return nil
}

// ignoreRefusal drops the error of a request that only improves a plan, unless
// the cluster could not be reached.
func ignoreRefusal(err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

func codeError(code int16) error {
	err := kerr.ErrorForCode(code)
	if err == nil {
		return nil
	}
	return classify(err)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
