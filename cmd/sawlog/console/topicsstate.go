package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// untold stands where nobody told a number.
const untold = -1

// partition is one partition of a topic, as its brokers tell it.
type partition struct {
	Topic            string
	TopicID          [16]byte
	Index            int32
	Leader           int32 // untold = none
	Epoch            int32
	Replicas, ISR    []int32
	Adding, Removing []int32 // by a move under way
	Start, End       int64   // of the log, up to the high watermark
	Found            int64   // an offset that was asked for by time
	Size             int64   // bytes of the leader's log
}

// Records is how many offsets the log holds, an upper bound of its records.
func (p *partition) Records() int64 {
	if p.Start < 0 || p.End < 0 {
		return untold
	}
	return p.End - p.Start
}

// Moving tells whether copies are being moved.
func (p *partition) Moving() bool { return len(p.Adding)+len(p.Removing) > 0 }

// lacking tells whether a copy that should be complete is not: one that a move
// adds is not expected to be.
func (p *partition) lacking() bool {
	return slices.ContainsFunc(p.Replicas, func(id int32) bool {
		return !slices.Contains(p.ISR, id) && !slices.Contains(p.Adding, id)
	})
}

// Trouble says in a word what is wrong with the partition; "" = nothing.
func (p *partition) Trouble() string {
	switch {
	case p.Leader < 0:
		return "offline"
	case p.lacking():
		return "under-replicated"
	}
	return ""
}

// topicState is a topic and its partitions, in their order.
type topicState struct {
	Name       string
	ID         [16]byte
	Internal   bool
	Partitions []partition
}

// count counts the partitions of a topic for which is holds.
func (t *topicState) count(is func(*partition) bool) (n int) {
	for i := range t.Partitions {
		if is(&t.Partitions[i]) {
			n++
		}
	}
	return n
}

// Offline counts the partitions without a leader.
func (t *topicState) Offline() int {
	return t.count(func(p *partition) bool { return p.Leader < 0 })
}

// Lacking counts the partitions that have a leader and lack a copy.
func (t *topicState) Lacking() int {
	return t.count(func(p *partition) bool { return p.Trouble() == "under-replicated" })
}

// Replicas is how many copies its first partition has, the same for all as a rule.
func (t *topicState) Replicas() int {
	if len(t.Partitions) == 0 {
		return 0
	}
	return len(t.Partitions[0].Replicas)
}

// Records adds up the partitions; untold when one of them is.
func (t *topicState) Records() int64 {
	return t.sum(func(p *partition) int64 { return p.Records() })
}

// Bytes adds up the leaders' logs; untold when one of them is.
func (t *topicState) Bytes() int64 { return t.sum(func(p *partition) int64 { return p.Size }) }

func (t *topicState) sum(of func(*partition) int64) (n int64) {
	for i := range t.Partitions {
		v := of(&t.Partitions[i])
		if v < 0 {
			return untold
		}
		n += v
	}
	return n
}

// topicStates asks where the partitions of topics are, of all topics when none
// is named. A topic that is named must be there.
func topicStates(ctx context.Context, c consumer.Cluster, names ...string) ([]topicState, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return topicsAnswered(ctx, c, req, len(names) > 0)
}

// topicsAnswered asks for metadata. A topic with an error is left out, or, where all
// must be there, the error.
func topicsAnswered(ctx context.Context, c consumer.Cluster, req *kmsg.MetadataRequest, all bool) ([]topicState, error) {
	resp, err := request[*kmsg.MetadataResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	list := make([]topicState, 0, len(resp.Topics))
	for i := range resp.Topics {
		mt := &resp.Topics[i]
		t := topicState{Internal: mt.IsInternal, ID: mt.TopicID}
		if mt.Topic != nil {
			t.Name = *mt.Topic
		}
		code := kerr.ErrorForCode(mt.ErrorCode)
		if code != nil && !all {
			continue
		}
		if code != nil {
			if errors.Is(code, kerr.UnknownTopicOrPartition) || errors.Is(code, kerr.InvalidTopicException) {
				return nil, fmt.Errorf("%w: %s", consumer.ErrUnknownTopic, t.Name)
			}
			return nil, fmt.Errorf("topic %s: %w: %w", t.Name, consumer.ErrUnavailable, code)
		}
		for _, p := range mt.Partitions {
			t.Partitions = append(t.Partitions, partition{
				Topic: t.Name, TopicID: t.ID, Index: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch,
				Replicas: p.Replicas, ISR: p.ISR, Start: untold, Found: untold, End: untold, Size: untold,
			})
		}
		slices.SortFunc(t.Partitions, func(a, b partition) int { return cmp.Compare(a.Index, b.Index) })
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b topicState) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// partitionsOf points to all partitions of some topics.
func partitionsOf(topics []topicState) []*partition {
	var all []*partition
	for i := range topics {
		for j := range topics[i].Partitions {
			all = append(all, &topics[i].Partitions[j])
		}
	}
	return all
}
