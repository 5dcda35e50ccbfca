package consumer

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// Committed reads the offsets a group has committed for partitions of the
// topics; those it has none for are absent.
func Committed(ctx context.Context, c Cluster, group string, topics []Topic) (map[offsets.TopicPartition]offsets.Offset, error) {
	var found map[offsets.TopicPartition]offsets.Offset
	err := retry(ctx, Patience(c), func(ctx context.Context) (err error) {
		found, err = fetchCommitted(ctx, c, group, topics)
		return err
	})
	return found, err
}

func fetchCommitted(ctx context.Context, c Cluster, group string, topics []Topic) (map[offsets.TopicPartition]offsets.Offset, error) {
	// Up to version 7 a request names one group, from 8 on a list of them;
	// both are filled in, for the version is chosen below.
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = group
	for _, t := range topics {
		old, one := kmsg.NewOffsetFetchRequestTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
		old.Topic, one.Topic, one.TopicID = t.Name, t.Name, t.ID
		for _, p := range t.Partitions {
			old.Partitions = append(old.Partitions, p.Index)
			one.Partitions = append(one.Partitions, p.Index)
		}
		req.Topics, rg.Topics = append(req.Topics, old), append(rg.Topics, one)
	}
	req.Groups = append(req.Groups, rg)
	resp, err := Ask[*kmsg.OffsetFetchResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	if err := CodeError(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("group %s: %w", group, err)
	}
	found := map[offsets.TopicPartition]offsets.Offset{}
	take := func(topic string, partition int32, offset int64, code int16) error {
		tp := offsets.TopicPartition{Topic: topic, Partition: partition}
		if err := CodeError(code); err != nil {
			return fmt.Errorf("group %s: %s: %w", group, tp, err)
		}
		if offset >= 0 {
			found[tp] = offsets.Offset(offset)
		}
		return nil
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := take(t.Topic, p.Partition, p.Offset, p.ErrorCode); err != nil {
				return nil, err
			}
		}
	}
	for _, g := range resp.Groups {
		if err := CodeError(g.ErrorCode); err != nil {
			return nil, fmt.Errorf("group %s: %w", group, err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := take(nameOf(topics, t.Topic, t.TopicID), p.Partition, p.Offset, p.ErrorCode); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

// nameOf is the name of a topic an answer gives by name or by id only.
func nameOf(topics []Topic, name string, id offsets.TopicID) string {
	for _, t := range topics {
		if name == "" && t.ID == id {
			return t.Name
		}
	}
	return name
}

// Commit sets the offsets of a group that has no members.
func Commit(ctx context.Context, c Cluster, group string, topics []Topic, at map[offsets.TopicPartition]offsets.Offset) error {
	return retry(ctx, Patience(c), func(ctx context.Context) error {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group = group
		for _, t := range topics {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic, rt.TopicID = t.Name, t.ID
			for _, p := range t.Partitions {
				offset, ok := at[offsets.TopicPartition{Topic: t.Name, Partition: p.Index}]
				if !ok {
					continue
				}
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset = p.Index, int64(offset)
				rt.Partitions = append(rt.Partitions, rp)
			}
			if len(rt.Partitions) > 0 {
				req.Topics = append(req.Topics, rt)
			}
		}
		resp, err := Ask[*kmsg.OffsetCommitResponse](ctx, c, req)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := CodeError(p.ErrorCode); err != nil {
					return fmt.Errorf("group %s: %s/%d: %w", group, nameOf(topics, t.Topic, t.TopicID), p.Partition, err)
				}
			}
		}
		return nil
	})
}
