package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"compat/line"
)

// member is one consumer of the group; its claims come on a channel at each
// generation, its records on one all members share.
type member struct {
	group  sarama.ConsumerGroup
	claims chan []int32
	seen   *seen
	done   chan error
}

// seen counts distinct records over all members.
type seen struct {
	mu  sync.Mutex
	at  map[[2]int64]int
	all chan struct{} // closed when count are there
	n   int
}

func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	var all []int32
	for _, parts := range s.Claims() {
		all = append(all, parts...)
	}
	slices.Sort(all)
	m.claims <- all
	return nil
}

func (m *member) Cleanup(s sarama.ConsumerGroupSession) error {
	s.Commit()
	return nil
}

func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for msg := range c.Messages() {
		m.seen.add(int64(msg.Partition), msg.Offset)
		s.MarkMessage(msg, "read")
	}
	return nil
}

func (s *seen) add(partition, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[[2]int64{partition, offset}]++; len(s.at) == s.n && s.all != nil {
		close(s.all)
		s.all = nil
	}
}

func (s suite) join(name, topic string, seen *seen, strategy sarama.BalanceStrategy) (*member, error) {
	c := settings(s.version)
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	c.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	g, err := sarama.NewConsumerGroup(s.addrs, name, c)
	if err != nil {
		return nil, err
	}
	m := &member{group: g, claims: make(chan []int32, 100), seen: seen, done: make(chan error, 1)}
	go func() {
		for {
			err := g.Consume(context.Background(), []string{topic}, m)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				err = nil
				m.done <- err
				return
			}
			if err != nil {
				m.done <- err
				return
			}
		}
	}()
	return m, nil
}

// has waits for a generation in which the member holds count partitions.
func (m *member) has(count int) ([]int32, error) {
	for limit := time.After(30 * time.Second); ; {
		select {
		case c := <-m.claims:
			if len(c) == count {
				return c, nil
			}
		case err := <-m.done:
			return nil, fmt.Errorf("the member ended: %w", err)
		case <-limit:
			return nil, fmt.Errorf("no generation with %d partitions", count)
		}
	}
}

func (m *member) leave() error {
	if err := m.group.Close(); err != nil {
		return err
	}
	return <-m.done
}

func (s suite) group() error {
	const partitions, each = 4, 25
	topic, name := s.prefix+"shared", s.prefix+"group"
	err := s.admin(func(a sarama.ClusterAdmin) error {
		return a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false)
	})
	if err != nil {
		return err
	}
	all := make(chan struct{})
	seen := &seen{at: map[[2]int64]int{}, all: all, n: partitions * each}
	one, err := s.join(name, topic, seen, sarama.NewBalanceStrategySticky())
	if err != nil {
		return err
	}
	alone, err := one.has(partitions)
	if err != nil {
		return err
	}
	line.Step("group alone", alone)
	two, err := s.join(name, topic, seen, sarama.NewBalanceStrategySticky())
	if err != nil {
		return err
	}
	first, err := one.has(partitions / 2)
	if err != nil {
		return err
	}
	second, err := two.has(partitions / 2)
	if err != nil {
		return err
	}
	both := slices.Sorted(slices.Values(append(first, second...)))
	line.Step("group of two", both)
	if err := s.fill(topic, partitions, each); err != nil {
		return err
	}
	select {
	case <-all:
	case <-time.After(30 * time.Second):
		return errors.New("the group did not read every record")
	}
	seen.mu.Lock()
	line.Step("group read", len(seen.at))
	seen.mu.Unlock()
	if err := s.describe("group described", name); err != nil {
		return err
	}
	if err := two.leave(); err != nil {
		return err
	}
	left, err := one.has(partitions)
	if err != nil {
		return err
	}
	line.Step("group after one left", left)
	if err := one.leave(); err != nil {
		return err
	}
	return s.after(name, topic)
}

// fill sends the same number of records to each partition.
func (s suite) fill(topic string, partitions, each int) error {
	p, err := sarama.NewSyncProducer(s.addrs, settings(s.version))
	if err != nil {
		return err
	}
	var all []*sarama.ProducerMessage
	for i := range partitions * each {
		m := message(topic, numbered(i))
		m.Partition = int32(i % partitions)
		all = append(all, m)
	}
	if err := p.SendMessages(all); err != nil {
		return err
	}
	return p.Close()
}

func (s suite) describe(step, name string) error {
	return s.admin(func(a sarama.ClusterAdmin) error {
		g, err := a.DescribeConsumerGroups([]string{name})
		if err != nil {
			return err
		}
		line.Step(step, []any{kind(code(g[0].Err)), g[0].State, g[0].ProtocolType, g[0].Protocol, len(g[0].Members)})
		return nil
	})
}

// after looks at what is left of a group, and removes it.
func (s suite) after(name, topic string) error {
	if err := s.describe("group empty", name); err != nil {
		return err
	}
	return s.admin(func(a sarama.ClusterAdmin) error {
		show := func(step string) error {
			res, err := a.ListConsumerGroupOffsets(name, map[string][]int32{topic: {0, 1, 2, 3}})
			if err != nil {
				return err
			}
			got := []any{}
			for p := range int32(4) {
				b := res.GetBlock(topic, p)
				got = append(got, []any{b.Offset, b.Metadata, kind(code(b.Err))})
			}
			line.Step(step, got)
			return nil
		}
		if err := show("offsets committed"); err != nil {
			return err
		}
		groups, err := a.ListConsumerGroups()
		if err != nil {
			return err
		}
		line.Step("group listed", groups[name])
		if _, err := a.AlterConsumerGroupOffsets(name, map[string]map[int32]sarama.OffsetAndMetadata{topic: {1: {Offset: 7, Metadata: "seven", LeaderEpoch: -1}}}, nil); err != nil {
			return err
		}
		line.Step("offset deleted", kind(a.DeleteConsumerGroupOffset(name, topic, 2)))
		if err := show("offsets altered"); err != nil {
			return err
		}
		line.Step("group deleted", kind(a.DeleteConsumerGroup(name)))
		line.Step("group deleted again", kind(a.DeleteConsumerGroup(name)))
		return s.describe("group gone", name)
	})
}
