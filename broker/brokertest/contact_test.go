package brokertest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// mostAway is how long a partition may be without a leader that commits when its
// own is cut off: a session, and the time to elect a controller and a leader.
const mostAway = 2500 * time.Millisecond

// leadersBack is how long it takes until leaders are where they belong again.
const leadersBack = 40 * time.Second

// longWait is for how long the producers of these tests would wait.
const longWait = 30 * time.Second

// TestIsolatedLeader: a client beside a leader that the other brokers are cut off
// from is not kept waiting by it, and goes on with the next leader.
func TestIsolatedLeader(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		l := newLoad()
		l.send(t, cl, "before", 10)
		for _, n := range c.Nodes {
			c.Isolate(n)
			for led := range int32(3) { // whoever leads: one of the three partitions is led by n
				began := time.Now()
				r := &kgo.Record{Topic: "t", Partition: led, Value: fmt.Appendf(nil, "%d-%d:0", n.ID, led)}
				sendOne(t, cl, r)
				l.ack(r)
				if took := time.Since(began); took > mostAway {
					t.Errorf("partition %d beside node %d takes a record after %v", led, n.ID, took)
				}
			}
			c.Fabric.Heal()
			c.Settle()
			awaitISR(t, c, 3)
			time.Sleep(leadersBack)
		}
		cl.Close()
		check(t, c, l)
	}, kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// TestIsolatedLeaderRefuses: what a leader waits for is answered once it knows
// that it is cut off, and it takes nothing more, whatever acks are asked for,
// until it is back. The answer sends the client to look for another leader.
func TestIsolatedLeaderRefuses(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		n, p, topic := leaderOf(t, c, 0), int32(0), knownID(t, cl)
		conn, err := n.Conn(t.Context(), "beside")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		awaitWritable(t, conn, topic, p)
		c.Isolate(n)
		began := time.Now()
		if code := produce(t, conn, topic, p, -1, longWait); code != kerr.NotLeaderForPartition.Code {
			t.Errorf("what waited is answered by %v", kerr.ErrorForCode(code))
		}
		if took := time.Since(began); took > mostAway {
			t.Errorf("the answer took %v", took)
		}
		began = time.Now()
		for _, acks := range []int16{-1, 1} {
			if code := produce(t, conn, topic, p, acks, longWait); code != kerr.NotLeaderForPartition.Code {
				t.Errorf("acks %d: %v", acks, kerr.ErrorForCode(code))
			}
		}
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("the refusals took %v", took)
		}
		c.Fabric.Heal()
		time.Sleep(leadersBack)
		awaitWritable(t, conn, topic, p)
	})
}

// TestLeadersOutliveTheController: while the active controller is replaced
// nobody is told that a leader is none.
func TestLeadersOutliveTheController(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		topic := knownID(t, cl)
		for p := range int32(3) {
			n := leaderOf(t, c, p)
			conn, err := n.Conn(t.Context(), "beside")
			if err != nil {
				t.Fatal(err)
			}
			awaitWritable(t, conn, topic, p)
			active := controllerOf(t, c)
			if active == n {
				_ = conn.Close()
				continue // its leaders go with it
			}
			c.Isolate(active, "beside")
			for began := time.Now(); time.Since(began) < 2*time.Second; {
				switch code := produce(t, conn, topic, p, -1, 100*time.Millisecond); code {
				case 0, kerr.RequestTimedOut.Code:
				default:
					t.Errorf("partition %d, led by node %d beside node %d: %v", p, n.ID, active.ID, kerr.ErrorForCode(code))
				}
				time.Sleep(10 * time.Millisecond)
			}
			_ = conn.Close()
			c.Fabric.Heal()
			time.Sleep(leadersBack)
		}
	})
}

// sendOne writes one record, or fails the test after a minute.
func sendOne(t *testing.T, cl *kgo.Client, r *kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// produce writes one record over a connection and returns the error code.
func produce(t *testing.T, conn *wire.Conn, topic [16]byte, partition int32, acks int16, timeout time.Duration) int16 {
	t.Helper()
	b := record.NewBuilder(record.None, 0)
	b.Append(record.Record{Timestamp: time.Now().UnixMilli(), Value: []byte("beside")})
	batch, err := b.Batch()
	if err != nil {
		t.Fatal(err)
	}
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = acks, int32(timeout.Milliseconds())
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = "t", topic
	rt.Partitions = []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: batch}}
	r.Topics = append(r.Topics, rt)
	m, err := conn.Request(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return m.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
}

// knownID is the id of topic t, once it is known.
func knownID(t *testing.T, cl *kgo.Client) (id [16]byte) {
	t.Helper()
	for range 100 {
		if id = topicID(t.Context(), cl); id != [16]byte{} {
			return id
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nobody knows topic t")
	return id
}

// awaitWritable waits until a node takes records as a partition's leader.
func awaitWritable(t *testing.T, conn *wire.Conn, topic [16]byte, partition int32) {
	t.Helper()
	code := int16(-1)
	for range 50 {
		if code = produce(t, conn, topic, partition, -1, longWait); code == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("partition %d after 5 s: %v", partition, kerr.ErrorForCode(code))
}

// leaderOf is the node that leads a partition of topic t.
func leaderOf(t *testing.T, c *brokertest.Cluster, partition int32) *brokertest.Node {
	t.Helper()
	for range 100 {
		for _, p := range partitionsSeen(t, c.Nodes[0]) {
			if p.Partition == partition && p.LeaderID > 0 {
				return c.Nodes[p.LeaderID-1]
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("partition %d has no leader", partition)
	return nil
}

// controllerOf is the node that is the active controller.
func controllerOf(t *testing.T, c *brokertest.Cluster) *brokertest.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err := c.Nodes[0].Conn(ctx, "watcher")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	r := kmsg.NewPtrDescribeQuorumRequest()
	r.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	m, err := conn.Request(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return c.Nodes[m.(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0].LeaderID-1]
}
