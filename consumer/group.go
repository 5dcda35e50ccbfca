package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

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

// Commit sets the offsets of a group that has no members. told is what became of
// each partition that a broker answered for, nil where its offset is set; err is why
// others were not answered for. It is repeated for those that may go well then.
func Commit(ctx context.Context, c Cluster, group string, topics []Topic, at map[offsets.TopicPartition]offsets.Offset) (told map[offsets.TopicPartition]error, err error) {
	told = map[offsets.TopicPartition]error{}
	_ = retry(ctx, Patience(c), func(ctx context.Context) error {
		left := maps.Clone(at)
		maps.DeleteFunc(left, func(tp offsets.TopicPartition, _ offsets.Offset) bool {
			refused, known := told[tp]
			return known && !passes(refused)
		})
		if err = commit(ctx, c, group, topics, left, told); err != nil {
			return err
		}
		return again(told)
	})
	if err == nil { // what the last try met is in told
		err = omitted(told, at)
	}
	return told, err
}

// omitted is the error of partitions that nothing was told of; it names the first.
func omitted(told map[offsets.TopicPartition]error, at map[offsets.TopicPartition]offsets.Offset) error {
	silent := map[offsets.TopicPartition]error{}
	for tp := range at {
		if _, known := told[tp]; !known {
			silent[tp] = ErrSilent
		}
	}
	return Refused(silent)
}

// Refused is the first refusal of many, in order of partitions, and says how many
// others there are; nil = all was done.
func Refused(told map[offsets.TopicPartition]error) error {
	refused := maps.Clone(told)
	maps.DeleteFunc(refused, func(_ offsets.TopicPartition, err error) bool { return err == nil })
	if len(refused) == 0 {
		return nil
	}
	first := slices.SortedFunc(maps.Keys(refused), offsets.TopicPartition.Compare)[0]
	if more := len(refused) - 1; more > 0 {
		return fmt.Errorf("%s, and %d more: %w", first, more, refused[first])
	}
	return fmt.Errorf("%s: %w", first, refused[first])
}

// again is a refusal that another try may not meet, or nil; of several one that is
// waited out for longest.
func again(told map[offsets.TopicPartition]error) (refused error) {
	for _, err := range told {
		if errors.Is(err, ErrUnavailable) {
			return err
		}
		if passes(err) {
			refused = err
		}
	}
	return refused
}

// passes tells whether a refusal may be over soon.
func passes(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownTopic) }

// commit is one try, which adds to told.
func commit(ctx context.Context, c Requestor, group string, topics []Topic, at map[offsets.TopicPartition]offsets.Offset, told map[offsets.TopicPartition]error) error {
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
			told[offsets.TopicPartition{Topic: nameOf(topics, t.Topic, t.TopicID), Partition: p.Partition}] = CodeError(p.ErrorCode)
		}
	}
	return nil
}
