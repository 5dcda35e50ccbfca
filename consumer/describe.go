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
	err := retry(ctx, Patience(c), func(ctx context.Context) (err error) {
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
func metadata(ctx context.Context, c Requestor, names []string, match *regexp.Regexp) ([]Topic, string, error) {
	req := kmsg.NewPtrMetadataRequest()
	if match == nil {
		req.Topics = []kmsg.MetadataRequestTopic{}
		for _, name := range names {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = new(name)
			req.Topics = append(req.Topics, t)
		}
	}
	resp, err := Ask[*kmsg.MetadataResponse](ctx, c, req)
	if err != nil {
		return nil, "", err
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
	if err := CodeError(mt.ErrorCode); err != nil {
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

// policies reads which topics are compacted. A cluster that does not tell
// leaves them uncompacted, under which holes are errors, not guesses.
func policies(ctx context.Context, c Cluster, topics []Topic) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, t.Name, []string{"cleanup.policy"}
		req.Resources = append(req.Resources, r)
	}
	resp, err := Ask[*kmsg.DescribeConfigsResponse](ctx, c, req)
	if err != nil {
		return ignoreRefusal(err)
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
	led := map[offsets.BrokerID][]offsets.TopicPartition{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			led[p.Leader] = append(led[p.Leader], offsets.TopicPartition{Topic: t.Name, Partition: p.Index})
		}
	}
	for leader, theirs := range led {
		told, err := LogSizes(ctx, c.Broker(int32(leader)), theirs)
		if err != nil {
			if err = ignoreRefusal(err); err != nil {
				return err
			}
			continue
		}
		for i := range topics {
			for j := range topics[i].Partitions {
				p := &topics[i].Partitions[j]
				if n, ok := told[offsets.TopicPartition{Topic: topics[i].Name, Partition: p.Index}]; ok {
					p.Size = n
				}
			}
		}
	}
	return nil
}

// LogSizes asks a broker for the bytes of its logs of some partitions, in order of
// topic; a log it doesn't tell of is absent. One that is being moved to another
// disk there counts where it is.
func LogSizes(ctx context.Context, broker Requestor, tps []offsets.TopicPartition) (map[offsets.TopicPartition]int64, error) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{} // none, not all
	for _, tp := range tps {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != tp.Topic {
			t := kmsg.NewDescribeLogDirsRequestTopic()
			t.Topic = tp.Topic
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, tp.Partition)
	}
	resp, err := Ask[*kmsg.DescribeLogDirsResponse](ctx, broker, req)
	if err != nil {
		return nil, err
	}
	told := make(map[offsets.TopicPartition]int64, len(tps))
	for _, dir := range resp.Dirs {
		for _, t := range dir.Topics {
			for _, p := range t.Partitions {
				if !p.IsFuture {
					told[offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p.Size
				}
			}
		}
	}
	return told, nil
}

// ignoreRefusal drops the error of a request that only improves a plan, unless
// the cluster could not be reached.
func ignoreRefusal(err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// CodeError is the error of one of Kafka's codes, nil for 0: the *kerr.Error and,
// where it means one of them, ErrUnavailable, ErrUnknownTopic or ErrAuth.
func CodeError(code int16) error {
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
