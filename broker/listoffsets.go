package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/broker/replica"
	"sawlog/offsets"
)

// ListOffsets, versions 1–11: the offset of a time or of a special position.
// −1 the end as the isolation level sees it, −2 the start, −3 the record of the
// greatest time (version 7, KIP-734), −4 the local start (8, KIP-405), −5 and −6
// the end of what is tiered and the begin of what is still to be (9 and 11,
// KIP-1005, KIP-1023): nothing is tiered here, so they find nothing. A time finds
// the first record at or after it, inside its batch. What isn't found is offset
// −1 without an error.

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
	m.Default()
	m.Version = r.Version
	twice := duplicates(r)
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		found := b.topics.name([]byte(t.Topic))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition, part.Timestamp, part.Offset, part.LeaderEpoch = p.Partition, -1, -1, -1
			switch {
			case twice[offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}]:
				part.ErrorCode = kerr.InvalidRequest.Code
			default:
				replica, err := hosted(found, p.Partition)
				if err == nil {
					err = listOffset(replica, r, p, &part)
				}
				part.ErrorCode = codeOf(err)
			}
			out.Partitions = append(out.Partitions, part)
		}
		m.Topics = append(m.Topics, out)
	}
	return m
}

// duplicates are the partitions asked for more than once.
func duplicates(r *kmsg.ListOffsetsRequest) map[offsets.TopicPartition]bool {
	seen := map[offsets.TopicPartition]bool{}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			tp := offsets.TopicPartition{Topic: r.Topics[i].Topic, Partition: r.Topics[i].Partitions[j].Partition}
			_, again := seen[tp]
			seen[tp] = again
		}
	}
	return seen
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

// listOffset answers for one partition.
func listOffset(p *replica.Partition, r *kmsg.ListOffsetsRequest, ask *kmsg.ListOffsetsRequestTopicPartition, out *kmsg.ListOffsetsResponseTopicPartition) error {
	limit, epoch, err := p.Latest(offsets.Epoch(ask.CurrentLeaderEpoch), r.IsolationLevel == 1)
	if err != nil && (ask.Timestamp != earliestTime && ask.Timestamp != earliestLocalTime || err != replica.ErrOffsetNotAvailable) {
		return err
	}
	var at offsets.Offset
	var ts int64
	found := true
	switch ask.Timestamp {
	case latestTime:
		at, ts = limit, -1
	case earliestTime, earliestLocalTime:
		if ask.Timestamp == earliestLocalTime && r.Version < 8 {
			return kerr.UnsupportedVersion
		}
		at, ts = p.View().LogStart, -1
		epoch = firstEpoch(p, at, epoch)
	case maxTimestampTime:
		if r.Version < 7 {
			return kerr.UnsupportedVersion
		}
		at, ts, epoch, found, err = p.Log().MaxTimestampOffset(limit)
	case latestTieredTime, pendingUploadTime:
		if r.Version < 9 || ask.Timestamp == pendingUploadTime && r.Version < 11 {
			return kerr.UnsupportedVersion
		}
		found, err = false, nil
	default:
		if ask.Timestamp < 0 {
			return fmt.Errorf("%w: time %d", kerr.UnsupportedVersion, ask.Timestamp)
		}
		at, ts, epoch, found, err = p.Log().OffsetForTime(ask.Timestamp, limit)
	}
	if err != nil && err != replica.ErrOffsetNotAvailable {
		return err
	}
	if found {
		out.Offset, out.Timestamp, out.LeaderEpoch = int64(at), ts, int32(epoch)
	}
	return nil
}

// firstEpoch is the leader epoch of the first batch, or that of now when there
// is none yet.
func firstEpoch(p *replica.Partition, at offsets.Offset, now offsets.Epoch) offsets.Epoch {
	got, err := p.Log().Read(at, 1, p.View().HighWatermark, true)
	if err != nil || len(got.Regions) == 0 {
		return now
	}
	var head [record.HeaderSize]byte
	n, _ := got.Regions[0].File.ReadAt(head[:], got.Regions[0].Pos) // a short read tells it all
	for _, region := range got.Regions {
		region.Done()
	}
	if n < len(head) {
		return now
	}
	return record.Batch(head[:]).Epoch()
}
