package group

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// OffsetCommit serves versions 2–10: up to 4 with a retention time, from 6 with
// leader epochs, from 7 with an instance id, from 10 with topic ids. It is
// answered when the offsets are committed in the log and visible to OffsetFetch.
// An empty group id is taken, for the oldest of clients.
func (c *Coordinator) OffsetCommit(_ context.Context, _ Client, r *kmsg.OffsetCommitRequest, done func(*kmsg.OffsetCommitResponse)) {
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = r.Version
	if len(r.Group) > maxGroupName {
		c.refuseCommit(resp, r, kerr.InvalidGroupID.Code)
		done(resp)
		return
	}
	records, slots := c.commitRecords(resp, r, nowMilli())
	if len(records) == 0 {
		done(resp)
		return
	}
	finish := func(code int16) {
		for _, slot := range slots {
			slot.ErrorCode = code
		}
		done(resp)
	}
	s := c.shard(r.Group)
	s.mu.Lock()
	defer s.unlock()
	if code := s.commitCheck(r); code != 0 {
		s.reply(func() { finish(code) })
		return
	}
	s.enqueue(&write{records: single(records...), done: func(code int16) {
		if code == 0 {
			c.metrics.commits.Add(int64(len(records)))
		}
		s.reply(func() { finish(code) })
	}})
}

// commitCheck asks the group; one that is not known is made by a commit from
// outside. The caller holds the lock.
func (s *shard) commitCheck(r *kmsg.OffsetCommitRequest) int16 {
	if code := s.unavailable(); code != 0 {
		return code
	}
	e := s.groups[r.Group]
	switch {
	case e != nil:
		code := e.state.CheckCommit(r.MemberID, deref(r.InstanceID), r.Generation)
		s.run(e)
		return code
	case r.Generation < 0:
		return 0
	case r.Version >= 9:
		return kerr.GroupIDNotFound.Code
	default:
		return kerr.IllegalGeneration.Code
	}
}

// commitRecords shapes the answer and makes the records of what is acceptable;
// slots are the answers that wait for them.
func (c *Coordinator) commitRecords(resp *kmsg.OffsetCommitResponse, r *kmsg.OffsetCommitRequest, now int64) (records []record.Record, slots []*kmsg.OffsetCommitResponseTopicPartition) {
	expires := int64(-1)
	if r.Version <= 4 && r.RetentionTimeMillis >= 0 {
		expires = now + r.RetentionTimeMillis
	}
	for _, t := range r.Topics {
		if len(t.Partitions) == 0 {
			continue
		}
		o := kmsg.NewOffsetCommitResponseTopic()
		o.TopicID, o.Topic = t.TopicID, strings.Clone(t.Topic)
		name, id := o.Topic, offsets.TopicID(t.TopicID)
		known := true
		if r.Version >= 10 {
			name, known = c.config.TopicName(id)
		} else {
			id, _ = c.config.TopicID(name)
		}
		o.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		for i, p := range t.Partitions {
			slot := &o.Partitions[i]
			slot.Partition = p.Partition
			tp := offsets.TopicPartition{Topic: name, Partition: p.Partition}
			switch {
			case !known:
				slot.ErrorCode = kerr.UnknownTopicID.Code
			case !c.config.TopicExists(tp):
				slot.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case len(deref(p.Metadata)) > c.config.Settings.MaxMetadata:
				slot.ErrorCode = kerr.OffsetMetadataTooLarge.Code
			default:
				slots = append(slots, slot)
				records = append(records, offsetRecord(now, r.Group, tp, &offsets.Committed{
					Offset: offsets.Offset(p.Offset), LeaderEpoch: offsets.Epoch(p.LeaderEpoch),
					Metadata: deref(p.Metadata), Time: now, Expires: expires, TopicID: id,
				}))
			}
		}
		resp.Topics = append(resp.Topics, o)
	}
	return records, slots
}

// refuseCommit answers every partition with one error.
func (c *Coordinator) refuseCommit(resp *kmsg.OffsetCommitResponse, r *kmsg.OffsetCommitRequest, code int16) {
	_, slots := c.commitRecords(resp, r, nowMilli())
	for _, slot := range slots {
		slot.ErrorCode = code
	}
}
