package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// OffsetForLeaderEpoch, versions 2–4 (KIP-320): the largest epoch not above the
// one asked for, and where it ends in this log; −1 and −1 when none is known, or
// when the asked one is newer than all. A consumer learns by it that records it read are gone.

func (b *Broker) offsetForLeaderEpoch(r *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for i := range r.Topics {
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = r.Topics[i].Topic
		t := b.topics.name([]byte(out.Topic))
		for _, ask := range r.Topics[i].Partitions {
			part := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			part.Partition, part.LeaderEpoch, part.EndOffset = ask.Partition, -1, -1
			p, err := hosted(t, ask.Partition)
			if err == nil {
				_, err = p.Check(offsets.Epoch(ask.CurrentLeaderEpoch))
			}
			if err == nil {
				last := p.EndOf(offsets.Epoch(ask.LeaderEpoch))
				part.LeaderEpoch, part.EndOffset = int32(last.Epoch), int64(last.End)
			}
			part.ErrorCode = codeOf(err)
			out.Partitions = append(out.Partitions, part)
		}
		m.Topics = append(m.Topics, out)
	}
	return m
}
