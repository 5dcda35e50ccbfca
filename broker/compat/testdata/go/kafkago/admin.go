package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"compat/line"
)

// admin uses the requests of Client that the other parts don't.
func (s suite) admin() error {
	const topic = "kafkago-admin"
	if err := s.topic(topic, 1, kafka.ConfigEntry{ConfigName: "retention.ms", ConfigValue: "3600000"}); err != nil {
		return err
	}
	for _, count := range []int32{3, 2} {
		res, err := s.cl.CreatePartitions(s.ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: count}}})
		if err != nil {
			return err
		}
		line.Step("admin: partitions added", kind(res.Errors[topic]))
	}
	if err := s.showConfigs("admin: configs", topic); err != nil {
		return err
	}
	incremental, err := s.cl.IncrementalAlterConfigs(s.ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, Configs: []kafka.IncrementalAlterConfigsRequestConfig{
			{Name: "retention.ms", ConfigOperation: kafka.ConfigOperationDelete},
			{Name: "cleanup.policy", ConfigOperation: kafka.ConfigOperationSet, Value: "compact"},
		},
	}}})
	if err != nil {
		return err
	}
	line.Step("admin: configs changed", kind(incremental.Resources[0].Error))
	if err := s.showConfigs("admin: configs", topic); err != nil {
		return err
	}
	all, err := s.cl.AlterConfigs(s.ctx, &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, Configs: []kafka.AlterConfigRequestConfig{{Name: "retention.ms", Value: "5000"}},
	}}})
	if err != nil {
		return err
	}
	for _, e := range all.Errors {
		line.Step("admin: configs replaced", kind(e))
	}
	if err := s.showConfigs("admin: configs", topic); err != nil {
		return err
	}
	first := base.Add(-time.Hour)
	if err := write(s.ctx, s.addr, topic, "lz4", 0, []line.Record{{Key: []byte("a"), Time: first.UnixMilli()}, {Key: []byte("b"), Time: base.UnixMilli()}}); err != nil {
		return err
	}
	offsets, err := s.cl.ListOffsets(s.ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {
		kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0), kafka.TimeOffsetOf(0, base),
	}}})
	if err != nil {
		return err
	}
	o := offsets.Topics[topic][0]
	line.Step("admin: offsets", []any{o.FirstOffset, o.LastOffset, len(o.Offsets), o.Offsets[1].Equal(base), kind(o.Error)})
	var id *kafka.InitProducerIDResponse
	err = settle(func() (done bool, err error) {
		id, err = s.cl.InitProducerID(s.ctx, &kafka.InitProducerIDRequest{ProducerID: -1, ProducerEpoch: -1})
		return err == nil && !errors.Is(id.Error, kafka.GroupLoadInProgress), err
	})
	if err != nil {
		return err
	}
	line.Step("admin: producer id", []any{id.Producer.ProducerID >= 0, id.Producer.ProducerEpoch, kind(id.Error)})
	elected, err := s.cl.ElectLeaders(s.ctx, &kafka.ElectLeadersRequest{Topic: topic, Partitions: []int{0}, Timeout: patience})
	if err != nil {
		return err
	}
	for _, p := range elected.PartitionResults {
		line.Step("admin: leader elected", kind(p.Error))
	}
	moving, err := s.cl.ListPartitionReassignments(s.ctx, &kafka.ListPartitionReassignmentsRequest{Timeout: patience, Topics: map[string]kafka.ListPartitionReassignmentsRequestTopic{topic: {PartitionIndexes: []int{0}}}})
	if err != nil {
		return err
	}
	line.Step("admin: reassignments", []any{kind(moving.Error), len(moving.Topics)})
	for range 2 {
		res, err := s.cl.DeleteTopics(s.ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
		if err != nil {
			return err
		}
		line.Step("admin: topic deleted", kind(res.Errors[topic]))
	}
	return nil
}

func (s suite) showConfigs(step, topic string) error {
	res, err := s.cl.DescribeConfigs(s.ctx, &kafka.DescribeConfigsRequest{IncludeSynonyms: true, Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"cleanup.policy", "retention.ms"}},
	}})
	if err != nil {
		return err
	}
	entries := res.Resources[0].ConfigEntries
	slices.SortFunc(entries, func(a, b kafka.DescribeConfigResponseConfigEntry) int {
		return strings.Compare(a.ConfigName, b.ConfigName)
	})
	var got []any
	for _, e := range entries {
		synonyms := []any{}
		for _, y := range e.ConfigSynonyms {
			synonyms = append(synonyms, []any{y.ConfigName, y.ConfigValue, y.ConfigSource})
		}
		got = append(got, []any{e.ConfigName, e.ConfigValue, e.ConfigSource, e.ConfigType, synonyms})
	}
	line.Step(step, got)
	return nil
}
