//go:build linux

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
)

// askLimit is how long a node may take to answer an administrator.
const askLimit = 5 * time.Second

// ask sends one request over a connection of its own.
func ask(addr string, req kmsg.Request, limit time.Duration) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), min(limit, 2*time.Second))
	defer cancel()
	conn, err := peer.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // its one answer was read
	return conn.Ask(req, limit)
}

// metadata asks a node for topics, or for brokers alone.
func metadata(addr string, topics ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 8
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, topic := range topics {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: new(topic)})
	}
	resp, err := ask(addr, req, askLimit)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.MetadataResponse), nil
}

// anyone asks running nodes, from one drawn by turn, until one answers well.
func (c *cluster) anyone(limit time.Duration, fn func(n *node) error) error {
	return await(limit, func() error {
		var errs []error
		for _, n := range c.running() {
			err := fn(n)
			if err == nil {
				return nil
			}
			errs = append(errs, fmt.Errorf("node %d: %w", n.id, err))
		}
		return cmp.Or(errors.Join(errs...), errors.New("no node runs"))
	})
}

// createTopic makes a topic.
func (c *cluster) createTopic(name string, partitions, replicas int, configs map[string]string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 60_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), int16(replicas)
	for key, val := range configs {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: new(val)})
	}
	req.Topics = append(req.Topics, topic)
	return c.anyone(patience, func(n *node) error {
		resp, err := ask(n.kafka, req, patience)
		if err != nil {
			return err
		}
		err = kerr.ErrorForCode(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return nil
		}
		return err
	})
}

// partition is what a node says of one.
type partition struct {
	place
	kmsg.MetadataResponseTopicPartition
}

// partitions are those of topics, as a node sees them.
func partitions(addr string, topics ...string) ([]partition, error) {
	m, err := metadata(addr, topics...)
	if err != nil {
		return nil, err
	}
	var all []partition
	for _, t := range m.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, fmt.Errorf("%s: %w", *t.Topic, err)
		}
		for _, p := range t.Partitions {
			all = append(all, partition{place{*t.Topic, p.Partition}, p})
		}
	}
	return all, nil
}

// controller is the node that leads the metadata, 0 when none says it does.
func (c *cluster) controller() int32 { return c.quorum().LeaderID }

// quorum is who leads the metadata and who votes on it, nothing when no node
// says so.
func (c *cluster) quorum() kmsg.DescribeQuorumResponseTopicPartition {
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 0
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = []kmsg.DescribeQuorumRequestTopicPartition{{}}
	req.Topics = append(req.Topics, topic)
	for _, n := range c.running() {
		resp, err := ask(n.kafka, req, time.Second)
		if err != nil {
			continue
		}
		r := resp.(*kmsg.DescribeQuorumResponse)
		if r.ErrorCode == 0 && len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 && r.Topics[0].Partitions[0].ErrorCode == 0 {
			return r.Topics[0].Partitions[0]
		}
	}
	return kmsg.DescribeQuorumResponseTopicPartition{}
}

// move reassigns partitions; nil replicas cancel.
func (c *cluster) move(to map[place][]int32) error {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.TimeoutMillis = 0, 10_000
	by := map[string][]kmsg.AlterPartitionAssignmentsRequestTopicPartition{}
	for p, replicas := range to {
		by[p.Topic] = append(by[p.Topic], kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: p.Partition, Replicas: replicas})
	}
	for topic, parts := range by {
		req.Topics = append(req.Topics, kmsg.AlterPartitionAssignmentsRequestTopic{Topic: topic, Partitions: parts})
	}
	return c.anyone(10*time.Second, func(n *node) error {
		resp, err := ask(n.kafka, req, askLimit)
		if err != nil {
			return err
		}
		r := resp.(*kmsg.AlterPartitionAssignmentsResponse)
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return err
		}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, err)
				}
			}
		}
		return nil
	})
}

// electPreferred asks for the preferred leader of every partition.
func (c *cluster) electPreferred() error {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.TimeoutMillis = 2, 10_000
	return c.anyone(10*time.Second, func(n *node) error {
		resp, err := ask(n.kafka, req, 10*time.Second)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.(*kmsg.ElectLeadersResponse).ErrorCode)
	})
}

// healed says what isn't as it should be: every node that runs knows all others,
// every partition has a leader, all its replicas are in sync, and all nodes say
// the same.
func (c *cluster) healed(topics ...string) error {
	want := ""
	for _, n := range c.running() {
		m, err := metadata(n.kafka)
		if err != nil {
			return fmt.Errorf("node %d: %w", n.id, err)
		}
		if len(m.Brokers) != len(c.running()) {
			return fmt.Errorf("node %d knows %d brokers of %d", n.id, len(m.Brokers), len(c.running()))
		}
		all, err := partitions(n.kafka, topics...)
		if err != nil {
			return fmt.Errorf("node %d: %w", n.id, err)
		}
		var says strings.Builder
		for _, p := range all {
			slices.Sort(p.ISR)
			if p.Leader < 0 || len(p.ISR) != len(p.Replicas) {
				return fmt.Errorf("node %d: %s has leader %d, replicas %v, in sync %v", n.id, p.place, p.Leader, p.Replicas, p.ISR)
			}
			says.WriteString(fmt.Sprintln(p.place, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR))
		}
		if want == "" {
			want = says.String()
		} else if says.String() != want {
			return fmt.Errorf("node %d says otherwise than the first:\n%s\n%s", n.id, says.String(), want)
		}
	}
	return nil
}
