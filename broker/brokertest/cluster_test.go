package brokertest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
)

// create makes a topic through any node.
func create(t *testing.T, cl *kgo.Client, topic string, partitions int32, factor int16, configs ...string) {
	t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, factor
	for i := 0; i < len(configs); i += 2 {
		rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	r.Topics = append(r.Topics, rt)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	m, err := r.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(m.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
}

// inBubble runs a test on a cluster of n brokers that all vote, if they are odd,
// with topic t on three of them, and a client.
func inBubble(t *testing.T, n int, test func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client), opts ...kgo.Opt) {
	synctest.Test(t, func(t *testing.T) {
		c := brokertest.NewCluster(t, n)
		c.StartAll()
		cl := c.Client("client", append(opts, kgo.DefaultProduceTopic("t"))...)
		defer cl.Close()
		create(t, cl, "t", 3, int16(min(n, 3)), "min.insync.replicas", "2")
		test(t, c, cl)
	})
}

// TestEachBrokerEnds: a record with acks=all survives the end of any broker, as
// processes and as machines, and when it goes in good order.
func TestEachBrokerEnds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for name, end := range map[string]func(*brokertest.Node){
		"killed":  (*brokertest.Node).Kill,
		"power":   func(n *brokertest.Node) { n.PowerOff(rnd) },
		"stopped": (*brokertest.Node).Stop,
		"wiped": func(n *brokertest.Node) {
			n.Kill()
			n.Wipe()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
				l := newLoad()
				l.send(t, cl, "before", 10)
				for _, n := range c.Nodes {
					end(n)
					began := time.Now()
					l.send(t, cl, fmt.Sprint(n.ID), 10)
					if took := time.Since(began); took > 5*time.Second {
						t.Errorf("ten records after the end of node %d took %v", n.ID, took)
					}
					n.Start()
					c.StartAll()
					awaitISR(t, c, 3)
				}
				l.send(t, cl, "after", 10)
				cl.Close()
				check(t, c, l)
			})
		})
	}
}

// TestIsolation: a node that others don't hear, or that doesn't hear others, is
// overcome, and goes on when it is healed.
func TestIsolation(t *testing.T) {
	for name, cut := range map[string]func(c *brokertest.Cluster, n *brokertest.Node){
		"both ways": func(c *brokertest.Cluster, n *brokertest.Node) { c.Isolate(n) },
		"deaf": func(c *brokertest.Cluster, n *brokertest.Node) {
			for _, other := range c.Nodes {
				c.Fabric.Cut(other.Host, n.Host)
			}
		},
		"mute": func(c *brokertest.Cluster, n *brokertest.Node) {
			for _, other := range c.Nodes {
				c.Fabric.Cut(n.Host, other.Host)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
				l := newLoad()
				l.send(t, cl, "before", 10)
				for _, n := range c.Nodes {
					cut(c, n)
					began := time.Now()
					l.send(t, cl, fmt.Sprint(n.ID), 10)
					t.Logf("ten records beside node %d took %v", n.ID, time.Since(began))
					c.Fabric.Heal()
					awaitISR(t, c, 3)
				}
				cl.Close()
				check(t, c, l)
			})
		})
	}
}

// TestGrow: a cluster of one becomes one of three, then of five.
func TestGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokertest.NewCluster(t, 1)
		c.StartAll()
		cl := c.Client("client", kgo.DefaultProduceTopic("t"))
		defer cl.Close()
		create(t, cl, "t", 3, 1)
		l := newLoad()
		for _, n := range []int{1, 3, 5} {
			for len(c.Nodes) < n {
				c.Add()
			}
			c.StartAll()
			l.send(t, cl, fmt.Sprint("with", n), 10)
		}
		reassign(t, cl, 3, []int32{5, 4, 3})
		l.send(t, cl, "moving", 30)
		awaitISR(t, c, 3)
		cl.Close()
		check(t, c, l)
	})
}

// reassign moves the partitions of topic t.
func reassign(t *testing.T, cl *kgo.Client, partitions int32, to []int32) {
	t.Helper()
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	rt.Topic = "t"
	for i := range partitions {
		rt.Partitions = append(rt.Partitions, kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: i, Replicas: to})
	}
	r.Topics = append(r.Topics, rt)
	r.AllowReplicationFactorChange = true
	m, err := r.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Topics[0].Partitions {
		if p.ErrorCode != 0 {
			t.Fatalf("partition %d: %v", p.Partition, kerr.ErrorForCode(p.ErrorCode))
		}
	}
}

// awaitISR waits until all partitions of topic t have n replicas, all in sync,
// as the first node that runs sees it.
func awaitISR(t *testing.T, c *brokertest.Cluster, n int) {
	t.Helper()
	var parts []kmsg.DescribeTopicPartitionsResponseTopicPartition
	for range 600 {
		parts = partitionsSeen(t, c.Nodes[0])
		whole := len(parts) > 0
		for _, p := range parts {
			whole = whole && len(p.ISR) == n && len(p.Replicas) == n
		}
		if whole {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("after a minute: %+v", parts)
}

// partitionsSeen is topic t as a node sees it, nil when it doesn't answer.
func partitionsSeen(t *testing.T, n *brokertest.Node) []kmsg.DescribeTopicPartitionsResponseTopicPartition {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err := n.Conn(ctx, "watcher")
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }() // it has answered
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	r.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}
	r.ResponsePartitionLimit = 100
	m, err := conn.Request(ctx, r)
	if err != nil {
		return nil
	}
	return m.(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions
}
