package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"compat/line"
)

// topics makes, lists, widens and deletes topics.
func (s suite) topics() error {
	return s.admin(func(a sarama.ClusterAdmin) error {
		name := s.prefix + "topics"
		detail := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": text("3600000")}}
		line.Step("topic validated", kind(a.CreateTopic(name, detail, true)))
		line.Step("topic created", kind(a.CreateTopic(name, detail, false)))
		line.Step("topic created again", kind(a.CreateTopic(name, detail, false)))
		line.Step("topic of two replicas", kind(a.CreateTopic(name+"2", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 2}, false)))
		line.Step("topic of a bad name", kind(a.CreateTopic("a/b", detail, false)))
		all, err := a.ListTopics()
		if err != nil {
			return err
		}
		line.Step("topic listed", []any{all[name].NumPartitions, all[name].ReplicationFactor, all[name].ConfigEntries["retention.ms"]})
		line.Step("partitions added", kind(a.CreatePartitions(name, 5, nil, false)))
		line.Step("partitions taken away", kind(a.CreatePartitions(name, 2, nil, false)))
		var described []*sarama.TopicMetadata
		err = settle(func() (bool, error) {
			described, err = a.DescribeTopics([]string{name, s.prefix + "none"})
			return err == nil && len(described[0].Partitions) == 5, err
		})
		if err != nil {
			return err
		}
		for _, t := range described {
			var parts []any
			for _, p := range t.Partitions {
				parts = append(parts, []any{p.ID, p.Leader, p.Replicas, p.Isr})
			}
			line.Step("topic described", []any{t.Name, kind(code(t.Err)), parts})
		}
		moving, err := a.ListPartitionReassignments(name, []int32{0})
		line.Step("reassignments", []any{moving, kind(err)})
		elected, err := a.ElectLeaders(sarama.PreferredElection, map[string][]int32{name: {0}})
		if r := elected[name][0]; err == nil && r != nil {
			err = code(r.ErrorCode)
		}
		line.Step("leaders elected", kind(err))
		line.Step("topic deleted", kind(a.DeleteTopic(name)))
		line.Step("topic deleted again", kind(a.DeleteTopic(name)))
		return nil
	})
}

// configs reads and changes the configs of a topic and of a broker.
func (s suite) configs() error {
	return s.admin(func(a sarama.ClusterAdmin) error {
		name := s.prefix + "configs"
		if err := a.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false); err != nil {
			return err
		}
		show := func(step string) error {
			var res []*sarama.ConfigResourceResult
			err := settle(func() (done bool, err error) {
				res, err = a.DescribeConfigs([]*sarama.ConfigResource{{
					Type: sarama.TopicResource, Name: name, ConfigNames: []string{"cleanup.policy", "retention.ms", "segment.bytes"},
				}}, sarama.DescribeConfigsOptions{IncludeSynonyms: true})
				return err == nil && len(res[0].Configs) == 3, err
			})
			if err != nil {
				return err
			}
			var got [][]any
			for _, e := range res[0].Configs {
				got = append(got, []any{e.Name, e.Value, e.Default, e.Source.String(), e.ReadOnly, e.Sensitive})
			}
			slices.SortFunc(got, func(x, y []any) int { return slices.Compare([]string{x[0].(string)}, []string{y[0].(string)}) })
			line.Step(step, got)
			return nil
		}
		if err := show("configs at first"); err != nil {
			return err
		}
		line.Step("config set", kind(a.AlterConfig(sarama.TopicResource, name, map[string]*string{"retention.ms": text("1000"), "segment.bytes": text("1048576")}, false)))
		if err := show("configs set"); err != nil {
			return err
		}
		line.Step("config of a bad value", kind(a.AlterConfig(sarama.TopicResource, name, map[string]*string{"retention.ms": text("soon")}, false)))
		line.Step("config of a bad name", kind(a.IncrementalAlterConfig(sarama.TopicResource, name, map[string]sarama.IncrementalAlterConfigsEntry{
			"no.such": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: text("1")},
		}, false)))
		line.Step("config changed", kind(a.IncrementalAlterConfig(sarama.TopicResource, name, map[string]sarama.IncrementalAlterConfigsEntry{
			"retention.ms":   {Operation: sarama.IncrementalAlterConfigsOperationDelete},
			"cleanup.policy": {Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: text("compact")},
		}, false)))
		if err := show("configs changed"); err != nil {
			return err
		}
		none, err := a.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: name + "-none"}}, sarama.DescribeConfigsOptions{})
		if err != nil {
			return err
		}
		line.Step("configs of no topic", kind(code(none[0].ErrorCode)))
		broker, err := a.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: "1", ConfigNames: []string{"log.retention.ms", "num.partitions"}})
		line.Step("configs of the broker", []any{len(broker) > 0, kind(err)})
		return nil
	})
}

// cluster looks at the broker itself.
func (s suite) cluster() error {
	return s.admin(func(a sarama.ClusterAdmin) error {
		brokers, controller, err := a.DescribeCluster()
		if err != nil {
			return err
		}
		line.Step("cluster", []any{len(brokers), brokers[0].ID() == controller, brokers[0].Addr() == s.addrs[0]})
		dirs, err := a.DescribeLogDirs([]int32{controller})
		if err != nil {
			return err
		}
		size := int64(0)
		for _, d := range dirs[controller] {
			for _, t := range d.Topics {
				if t.Topic == s.prefix+"time" {
					size = t.Partitions[0].Size
				}
			}
		}
		line.Step("log dirs", []any{len(dirs[controller]), kind(code(dirs[controller][0].ErrorCode)), size > 0})
		if _, err := a.Controller(); err != nil {
			return fmt.Errorf("controller: %w", err)
		}
		return nil
	})
}

// settle asks until the answer is there: brokers may take a moment to see what
// their controller has done. The last answer counts after 5 s.
func settle(ask func() (bool, error)) error {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		done, err := ask()
		if done || err != nil || time.Now().After(deadline) {
			return err
		}
	}
}
