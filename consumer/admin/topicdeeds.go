package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/offsets"
)

// NewTopic is a topic that is to be made.
type NewTopic struct {
	Name       string
	Partitions int32       // -1 = the server's default
	Replicas   int16       // copies of each; -1 = the server's default
	Configs    [][2]string // name and value
}

// Created is a topic that was made.
type Created struct {
	ID         offsets.TopicID
	Partitions int32
	Replicas   int16
}

// CreateTopic makes a topic; dryRun only checks, and tells what it would be.
func CreateTopic(ctx context.Context, c consumer.Requestor, topic NewTopic, dryRun bool) (*Created, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.ValidateOnly = millisLeft(ctx, c), dryRun
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic.Name, topic.Partitions, topic.Replicas
	for _, kv := range topic.Configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = kv[0], new(kv[1])
		t.Configs = append(t.Configs, config)
	}
	req.Topics = append(req.Topics, t)
	resp, err := consumer.Ask[*kmsg.CreateTopicsResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	made, err := oneAnswer("topic "+topic.Name, resp.Topics)
	if err != nil {
		return nil, err
	}
	return &Created{made.TopicID, made.NumPartitions, made.ReplicationFactor}, refusal("topic "+topic.Name, made.ErrorCode, made.ErrorMessage)
}

// DeleteTopics deletes topics and their records, and tells which it has.
func DeleteTopics(ctx context.Context, c consumer.Requestor, names []string) (gone []string, err error) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = millisLeft(ctx, c), names
	for _, name := range names {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	resp, err := consumer.Ask[*kmsg.DeleteTopicsResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	told := map[string]error{}
	for _, t := range resp.Topics {
		told[deref(t.Topic)] = refusal("topic "+deref(t.Topic), t.ErrorCode, t.ErrorMessage)
	}
	return deeds("topic ", names, told, nil)
}

// DeleteTopic deletes a topic by its id: the one that was looked at, and no other of
// its name.
func DeleteTopic(ctx context.Context, c consumer.Requestor, topic *Topic) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = millisLeft(ctx, c)
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.TopicID = topic.ID
	req.Topics = append(req.Topics, t)
	resp, err := consumer.Ask[*kmsg.DeleteTopicsResponse](ctx, c, req)
	if err != nil {
		return err
	}
	gone, err := oneAnswer("topic "+topic.Name, resp.Topics)
	if err != nil {
		return err
	}
	return refusal("topic "+topic.Name, gone.ErrorCode, gone.ErrorMessage)
}

// CreatePartitions grows a topic to so many partitions; dryRun only checks.
func CreatePartitions(ctx context.Context, c consumer.Requestor, topic string, total int32, dryRun bool) error {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis, req.ValidateOnly = millisLeft(ctx, c), dryRun
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, total
	req.Topics = append(req.Topics, t)
	resp, err := consumer.Ask[*kmsg.CreatePartitionsResponse](ctx, c, req)
	if err != nil {
		return err
	}
	grown, err := oneAnswer("partitions of "+topic, resp.Topics)
	if err != nil {
		return err
	}
	return refusal("partitions of "+topic, grown.ErrorCode, grown.ErrorMessage)
}

// DeleteRecords deletes the records of a topic below an offset of each partition,
// and tells where the logs start now of which they were deleted. Of a topic that is
// only compacted they can't be deleted so (kerr.PolicyViolation).
func DeleteRecords(ctx context.Context, c consumer.Requestor, topic string, below map[int32]int64) (starts map[int32]int64, err error) {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = millisLeft(ctx, c)
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	for _, partition := range slices.Sorted(maps.Keys(below)) {
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = partition, below[partition]
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := consumer.AskPieces[*kmsg.DeleteRecordsResponse](ctx, c, req)
	if resp == nil {
		return nil, err
	}
	starts = map[int32]int64{}
	told := map[int32]error{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			said := (*string)(nil)
			if p.ErrorCode == kerr.PolicyViolation.Code {
				said = new(t.Topic + " is compacted: its old records are removed by key, not by offset")
			}
			tp := offsets.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			told[p.Partition], starts[p.Partition] = partitionRefusal("records of ", tp, p.ErrorCode, said), p.LowWatermark
		}
	}
	done, err := deeds("records of "+topic+"/", slices.Sorted(maps.Keys(below)), told, err)
	maps.DeleteFunc(starts, func(p int32, _ int64) bool { return !slices.Contains(done, p) })
	return starts, err
}
