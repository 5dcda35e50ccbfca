package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/replica"
	"sawlog/offsets"
)

// ListOffsets, versions 1–11: the offset of a time or of a special position.
// −1 the end as the isolation level sees it, −2 the start, −3 the record of the
// greatest time (version 7, KIP-734), −4 the local start (8, KIP-405), −5 and −6
// the end of what is tiered and the begin of what is still to be (9 and 11,
// KIP-1005, KIP-1023): nothing is tiered here, so they find nothing. A time finds
// the first record at or after it, inside its batch. What isn't found is offset
// −1 without an error. A partition asked for twice is answered once, with
// INVALID_REQUEST.

const (
	latestTime        = -1
	earliestTime      = -2
	maxTimestampTime  = -3
	earliestLocalTime = -4
	latestTieredTime  = -5
	pendingUploadTime = -6
)

func (b *Broker) listOffsets(r *kmsg.ListOffsetsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.ListOffsetsResponse)
	times := countAsked(r)
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		found := b.topics.name([]byte(t.Topic))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition, part.Timestamp, part.Offset, part.LeaderEpoch = p.Partition, -1, -1, -1
			tp := offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			switch n := times[tp]; {
			case n == 0: // answered before
				continue
			case n > 1:
				times[tp] = 0
				part.ErrorCode = kerr.InvalidRequest.Code
			case p.Timestamp < 0 && !knownTime(p.Timestamp, r.Version):
				part.ErrorCode = kerr.UnsupportedVersion.Code
			default:
				part.ErrorCode = codeOf(b.listOffset(found, r, p, &part))
			}
			out.Partitions = append(out.Partitions, part)
		}
		if len(r.Topics[i].Partitions) > 0 { // topics of none aren't answered, as in Kafka
			m.Topics = append(m.Topics, out)
		}
	}
	return m
}

// countAsked tells how often a partition is asked for.
func countAsked(r *kmsg.ListOffsetsRequest) map[offsets.TopicPartition]int {
	times := map[offsets.TopicPartition]int{}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			times[offsets.TopicPartition{Topic: r.Topics[i].Topic, Partition: r.Topics[i].Partitions[j].Partition}]++
		}
	}
	return times
}

// knownTime tells whether a special position has a meaning in a version.
func knownTime(special int64, version int16) bool {
	switch special {
	case latestTime, earliestTime:
		return true
	case maxTimestampTime:
		return version >= 7
	case earliestLocalTime:
		return version >= 8
	case latestTieredTime:
		return version >= 9
	case pendingUploadTime:
		return version >= 11
	}
	return false
}

// hosted is the replica of a partition on this broker.
func hosted(t *topic, partition int32) (*replica.Partition, error) {
	switch {
	case t == nil || partition < 0 || int(partition) >= len(t.meta.Partitions):
		return nil, kerr.UnknownTopicOrPartition
	case t.partition(partition) == nil:
		return nil, replica.ErrNotLeader
	}
	return t.partitions[partition], nil
}

// listOffset answers for one partition. A leader that the controller may have
// replaced without its knowing is no more sure of where its log ends than one that
// has just begun: others may have gone on.
func (b *Broker) listOffset(t *topic, r *kmsg.ListOffsetsRequest, ask *kmsg.ListOffsetsRequestTopicPartition, out *kmsg.ListOffsetsResponseTopicPartition) error {
	p, err := hosted(t, ask.Partition)
	if err != nil {
		return err
	}
	limit, epoch, err := p.Latest(offsets.Epoch(ask.CurrentLeaderEpoch), r.IsolationLevel == 1)
	if err == nil && !b.controller.Leased() {
		err = replica.ErrOffsetNotAvailable
	}
	unsure := errors.Is(err, replica.ErrOffsetNotAvailable)
	switch {
	case unsure && (ask.Timestamp == earliestTime || ask.Timestamp == earliestLocalTime):
		err = nil // the start is sure
	case unsure && r.Version < 5:
		return kerr.LeaderNotAvailable // what older clients know
	case err != nil:
		return err
	}
	at, ts, found := limit, int64(-1), true
	switch ask.Timestamp {
	case latestTime:
	case earliestTime, earliestLocalTime:
		at = p.View().LogStart
		epoch = p.Log().EpochAt(at)
	case maxTimestampTime:
		at, ts, epoch, found, err = p.Log().MaxTimestampOffset(limit)
	case latestTieredTime, pendingUploadTime:
		found = false
	default:
		at, ts, epoch, found, err = p.Log().OffsetForTime(ask.Timestamp, limit)
	}
	if err == nil && found {
		out.Offset, out.Timestamp, out.LeaderEpoch = int64(at), ts, int32(epoch)
	}
	return err
}
