package consumer

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// The timestamps ListOffsets takes for places in the log.
const (
	Latest   = -1
	Earliest = -2
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
		{Earliest, false, func(p *Partition, o offsets.Offset) { p.LogStart = o }},
		{Latest, true, func(p *Partition, o offsets.Offset) { p.LastStable = max(o, p.LogStart) }},
		{Latest, false, func(p *Partition, o offsets.Offset) { p.HighWatermark = max(o, p.LastStable) }},
	}
	var tps []offsets.TopicPartition
	for _, t := range topics {
		for _, p := range t.Partitions {
			tps = append(tps, offsets.TopicPartition{Topic: t.Name, Partition: p.Index})
		}
	}
	for _, ask := range asks {
		found, err := ListOffsets(ctx, c, tps, ask.at, ask.committed)
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
	err := retry(ctx, Patience(c), func(ctx context.Context) (err error) {
		found, err = ListOffsets(ctx, c, tps, max(ms, 0), true)
		return err
	})
	return found, err
}

// ListOffsets asks for an offset of each partition, in order of topic: Earliest,
// Latest, or the first with a timestamp of at milliseconds or later; where no
// record is that young the partition is absent. With committed, Latest is the last
// stable offset. c is the cluster, or a broker that leads all of them. What is
// refused or left out is an error; what the others told stands beside it, nil where
// nobody answered.
func ListOffsets(ctx context.Context, c Requestor, tps []offsets.TopicPartition, at int64, committed bool) (map[offsets.TopicPartition]offsets.Offset, error) {
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
	resp, err := Ask[*kmsg.ListOffsetsResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	answered := 0
	var refused error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			tp := offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			answered++
			if err := CodeError(p.ErrorCode); err != nil {
				if refused == nil {
					refused = fmt.Errorf("%s: offsets: %w", tp, err)
				}
				continue
			}
			if p.Offset >= 0 {
				found[tp] = offsets.Offset(p.Offset)
			}
		}
	}
	if refused == nil && answered != len(tps) {
		refused = fmt.Errorf("%w: %d of %d partitions told their offsets", ErrUnavailable, answered, len(tps))
	}
	return found, refused
}
