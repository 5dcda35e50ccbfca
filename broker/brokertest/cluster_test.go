package brokertest_test

import (
	"context"
	"fmt"
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

// TestThreeBrokers found a cluster and join it, and a record with acks=all
// survives the end of any of them.
func TestThreeBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokertest.NewCluster(t, 3)
		c.StartAll()
		cl := c.Client("client", kgo.DefaultProduceTopic("t"))
		defer cl.Close()
		create(t, cl, "t", 3, 3, "min.insync.replicas", "2")
		acked := map[string]bool{}
		send := func(round int) {
			t.Helper()
			for i := range 10 {
				v := fmt.Sprintf("%d-%d", round, i)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				if err := cl.ProduceSync(ctx, kgo.StringRecord(v)).FirstErr(); err != nil {
					t.Fatalf("%s: %v", v, err)
				}
				cancel()
				acked[v] = true
			}
		}
		send(0)
		for i, n := range c.Nodes {
			n.Kill()
			began := time.Now()
			send(i + 1)
			t.Logf("ten records after the end of node %d took %v", n.ID, time.Since(began))
			n.Start()
			c.Settle()
		}
		send(9)
		cl.Close()
		check(t, c, acked)
	})
}
