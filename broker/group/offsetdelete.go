package group

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// OffsetDelete serves version 0: single offsets of a group, of one with members
// only for topics nobody there is subscribed to (KIP-496).
func (c *Coordinator) OffsetDelete(_ context.Context, _ Client, r *kmsg.OffsetDeleteRequest, done func(*kmsg.OffsetDeleteResponse)) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version = r.Version
	if r.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		done(resp)
		return
	}
	s := c.shard(r.Group)
	s.mu.Lock()
	defer s.unlock()
	if resp.ErrorCode = s.offsetDeleteCheck(r.Group); resp.ErrorCode != 0 {
		s.reply(func() { done(resp) })
		return
	}
	g := s.group(r.Group)
	var doomed []offsets.TopicPartition
	var slots []*kmsg.OffsetDeleteResponseTopicPartition
	for _, t := range r.Topics {
		if len(t.Partitions) == 0 {
			continue
		}
		o := kmsg.NewOffsetDeleteResponseTopic()
		o.Topic = strings.Clone(t.Topic)
		o.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(t.Partitions))
		for i, p := range t.Partitions {
			slot := &o.Partitions[i]
			slot.Partition = p.Partition
			tp := offsets.TopicPartition{Topic: o.Topic, Partition: p.Partition}
			switch {
			case !c.config.TopicExists(tp):
				slot.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case g != nil && g.Subscribed(o.Topic):
				slot.ErrorCode = kerr.GroupSubscribedToTopic.Code
			default:
				doomed, slots = append(doomed, tp), append(slots, slot)
			}
		}
		resp.Topics = append(resp.Topics, o)
	}
	group := strings.Clone(r.Group)
	s.enqueue(&write{
		barrier: true,
		records: func() (rs []record.Record, err error) {
			for _, tp := range doomed {
				_, found, err := c.config.Store.Offset(s.partition, group, tp)
				if err != nil {
					return nil, err
				}
				if found {
					rs = append(rs, offsetTombstone(nowMilli(), group, tp))
				}
			}
			return rs, nil
		},
		done: func(code int16) {
			for _, slot := range slots {
				slot.ErrorCode = code
			}
			s.reply(func() { done(resp) })
		},
	})
}

// offsetDeleteCheck is the error for the whole request. The caller holds the lock.
func (s *shard) offsetDeleteCheck(group string) int16 {
	if code := s.unavailable(); code != 0 {
		return code
	}
	if g := s.group(group); g != nil {
		return g.CheckOffsetDelete()
	}
	return s.offsetsOnly(group)
}

// offsetsOnly is 0 for a group that has offsets, though no members ever.
func (s *shard) offsetsOnly(group string) int16 {
	switch has, err := s.co.config.Store.HasOffsets(s.partition, group); {
	case err != nil:
		s.co.config.Logger.Error("look for offsets", "group", group, "error", err)
		return kerr.CoordinatorNotAvailable.Code
	case !has:
		return kerr.GroupIDNotFound.Code
	default:
		return 0
	}
}
