package broker

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/offsets"
)

// DescribeTopicPartitions, version 0 (KIP-966): partitions with their eligible
// leader replicas, topic after topic in order of name, up to a limit; the cursor
// tells where the next request goes on.

const partitionLimit = 2000

func (b *Broker) describeTopicPartitions(r *kmsg.DescribeTopicPartitionsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	im := b.controller.Image()
	if r.Cursor != nil && !fitsCursor(r) {
		for i := range r.Topics {
			out := kmsg.NewDescribeTopicPartitionsResponseTopic()
			out.Topic, out.ErrorCode = &r.Topics[i].Topic, kerr.InvalidRequest.Code
			m.Topics = append(m.Topics, out)
		}
		return m
	}
	left := min(max(int(r.ResponsePartitionLimit), 1), partitionLimit)
	for _, name := range describedTopics(im, r) {
		var from int32
		if r.Cursor != nil && r.Cursor.Topic == name {
			from = r.Cursor.Partition
		}
		t, ok := im.TopicByName(name)
		if left == 0 {
			m.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: from}
			break
		}
		out := kmsg.NewDescribeTopicPartitionsResponseTopic()
		out.Topic, out.AuthorizedOperations = &name, topicOperations
		if !ok {
			out.ErrorCode = kerr.UnknownTopicOrPartition.Code
			m.Topics = append(m.Topics, out)
			continue
		}
		out.TopicID, out.IsInternal = t.ID, t.Internal
		for int(from) < len(t.Partitions) && left > 0 {
			out.Partitions = append(out.Partitions, describedPartition(im, &t.Partitions[from]))
			from++
			left--
		}
		m.Topics = append(m.Topics, out)
		if int(from) < len(t.Partitions) {
			m.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: from}
			break
		}
	}
	return m
}

// fitsCursor tells whether a cursor could have come from an answer to the same
// question.
func fitsCursor(r *kmsg.DescribeTopicPartitionsRequest) bool {
	among := len(r.Topics) == 0 || slices.ContainsFunc(r.Topics, func(t kmsg.DescribeTopicPartitionsRequestTopic) bool {
		return t.Topic == r.Cursor.Topic
	})
	return among && r.Cursor.Partition >= 0
}

// describedTopics are the names asked for, or all, from the cursor on.
func describedTopics(im *controller.Image, r *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for i := range r.Topics {
		names = append(names, r.Topics[i].Topic)
	}
	if len(names) == 0 {
		for _, t := range im.Topics() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if r.Cursor != nil {
		names = slices.DeleteFunc(names, func(n string) bool { return strings.Compare(n, r.Cursor.Topic) < 0 })
	}
	return names
}

func describedPartition(im *controller.Image, p *controller.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	out.Partition, out.LeaderID, out.LeaderEpoch = p.Index, int32(p.Leader), int32(p.Epoch)
	out.Replicas, out.ISR, out.EligibleLeaderReplicas = ids(p.Replicas), ids(p.ISR), ids(p.ELR)
	out.LastKnownELR = []int32{}
	out.OfflineReplicas = offline(im, p)
	if p.Leader == offsets.NoBroker {
		out.ErrorCode = kerr.LeaderNotAvailable.Code
	}
	return out
}
