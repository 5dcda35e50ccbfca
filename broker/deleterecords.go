package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// DeleteRecords, versions 0–2 (KIP-107): raises the log start. −1 means the high
// watermark, beyond it is out of range, below the log start nothing happens. A
// topic that is only compacted is refused, as in Kafka.

func (b *Broker) deleteRecords(r *kmsg.DeleteRecordsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DeleteRecordsResponse)
	m.Default()
	m.Version = r.Version
	for i := range r.Topics {
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = r.Topics[i].Topic
		t := b.topics.name([]byte(out.Topic))
		last := lastAsked(r.Topics[i].Partitions)
		for j, ask := range r.Topics[i].Partitions {
			if last[ask.Partition] != j {
				continue
			}
			part := kmsg.NewDeleteRecordsResponseTopicPartition()
			part.Partition, part.LowWatermark = ask.Partition, -1
			low, err := deleteRecords(t, ask.Partition, offsets.Offset(ask.Offset))
			if err == nil {
				part.LowWatermark = int64(low)
			}
			part.ErrorCode = codeOf(err)
			out.Partitions = append(out.Partitions, part)
		}
		if len(r.Topics[i].Partitions) > 0 { // topics of none aren't answered, as in Kafka
			m.Topics = append(m.Topics, out)
		}
	}
	return m
}

// lastAsked is where in a list each partition comes last: that one counts.
func lastAsked(parts []kmsg.DeleteRecordsRequestTopicPartition) map[int32]int {
	last := make(map[int32]int, len(parts))
	for j := range parts {
		last[parts[j].Partition] = j
	}
	return last
}

// deleteRecords deletes below an offset and returns the log start after it.
func deleteRecords(t *topic, partition int32, to offsets.Offset) (offsets.Offset, error) {
	p, err := hosted(t, partition)
	if err != nil {
		return 0, err
	}
	v, err := p.Check(offsets.NoEpoch)
	switch {
	case err != nil:
		return 0, err
	case t.meta.Internal:
		return 0, kerr.InvalidTopicException
	case !t.config.log.Delete:
		return 0, kerr.PolicyViolation
	case to == -1:
		to = v.HighWatermark
	case to < 0 || to > v.HighWatermark:
		return 0, fmt.Errorf("%w: %d, the high watermark is %d", kerr.OffsetOutOfRange, to, v.HighWatermark)
	}
	if to > v.LogStart {
		if err := p.Log().DeleteBefore(to); err != nil {
			return 0, err
		}
		p.Trimmed()
	}
	return p.View().LogStart, nil
}
