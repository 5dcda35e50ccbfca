package broker

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/replica"
	"sawlog/offsets"
)

// DeleteRecords, versions 0–2 (KIP-107): raises the log start. −1 means the high
// watermark, beyond it is out of range, below the log start nothing happens. A
// topic that is only compacted is refused, as in Kafka. It is answered by the low
// watermark, once the replicas of all brokers in service begin there, or when the
// time is over.

func (b *Broker) deleteRecords(r *kmsg.DeleteRecordsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DeleteRecordsResponse)
	var trims []trim
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
			p, to, err := deleteRecords(t, ask.Partition, offsets.Offset(ask.Offset))
			part.ErrorCode = codeOf(err)
			if err == nil {
				trims = append(trims, trim{p, to, len(m.Topics), len(out.Partitions)})
			}
			out.Partitions = append(out.Partitions, part)
		}
		if len(r.Topics[i].Partitions) > 0 { // topics of none aren't answered, as in Kafka
			m.Topics = append(m.Topics, out)
		}
	}
	b.awaitTrims(m, trims, r.TimeoutMillis)
	return m
}

// trim is a partition that begins at an offset here, and will elsewhere, and where
// the answer tells of it.
type trim struct {
	replica     *replica.Partition
	to          offsets.Offset
	topic, part int
}

// bell tells a goroutine that something happened.
type bell chan struct{}

func (b bell) Wake(int64) {
	select {
	case b <- struct{}{}:
	default:
	}
}

// awaitTrims answers for partitions as they are done.
func (b *Broker) awaitTrims(m *kmsg.DeleteRecordsResponse, trims []trim, timeoutMillis int32) {
	ctx, cancel := b.adminContext(timeoutMillis)
	defer cancel()
	woken := make(bell, 1)
	for _, t := range trims {
		t.replica.Watch(woken, 0) // wakes at once
		defer t.replica.Unwatch(woken)
	}
	for {
		done := true
		for _, t := range trims {
			low, err := t.replica.LowWatermark(b.serving)
			if err == nil && low < t.to {
				done, err = false, kerr.RequestTimedOut
			}
			part := &m.Topics[t.topic].Partitions[t.part]
			part.LowWatermark, part.ErrorCode = int64(low), codeOf(err)
		}
		if done {
			return
		}
		select {
		case <-woken:
		case <-time.After(lookAgain): // a broker may have gone
		case <-ctx.Done():
			return
		}
	}
}

// lookAgain is how soon it is noticed that a broker went out of service which was
// waited for.
const lookAgain = 100 * time.Millisecond

// serving tells whether a broker is in service.
func (b *Broker) serving(id offsets.BrokerID) bool {
	br, ok := b.controller.Image().Broker(id)
	return ok && !br.Fenced
}

// lastAsked is where in a list each partition comes last: that one counts.
func lastAsked(parts []kmsg.DeleteRecordsRequestTopicPartition) map[int32]int {
	last := make(map[int32]int, len(parts))
	for j := range parts {
		last[parts[j].Partition] = j
	}
	return last
}

// deleteRecords deletes below an offset here, and returns which it is.
func deleteRecords(t *topic, partition int32, to offsets.Offset) (*replica.Partition, offsets.Offset, error) {
	p, err := hosted(t, partition)
	if err != nil {
		return nil, 0, err
	}
	v, err := p.Check(offsets.NoEpoch)
	switch {
	case err != nil:
		return nil, 0, err
	case t.meta.Internal:
		return nil, 0, kerr.InvalidTopicException
	case !t.config.log.Delete:
		return nil, 0, kerr.PolicyViolation
	case to == -1:
		to = v.HighWatermark
	case to < 0 || to > v.HighWatermark:
		return nil, 0, fmt.Errorf("%w: %d, the high watermark is %d", kerr.OffsetOutOfRange, to, v.HighWatermark)
	}
	if to > v.LogStart {
		if err := p.Log().DeleteBefore(to); err != nil {
			return nil, 0, err
		}
		p.Trimmed()
	}
	return p, to, nil
}
