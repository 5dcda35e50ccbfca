package brokertest_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/peer"
	"sawlog/broker/record"
	"sawlog/offsets"
)

// TestClientsAreNoBrokers: what a client claims to be moves nothing. It fetches
// as each broker, at each broker epoch, a record that no follower has: the high
// watermark stands. And no request that Kafka's controllers and brokers send to
// each other is answered.
func TestClientsAreNoBrokers(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		l := newLoad()
		l.send(t, cl, "x", 30)
		awaitISR(t, c, 3)
		before := partitionsSeen(t, c.Nodes[1])
		for _, key := range []int16{4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 80, 81, 82} {
			for _, n := range c.Nodes {
				if answer, err := ask(t, n, kmsg.RequestForKey(key)); err == nil {
					t.Errorf("%s is answered: %+v", kmsg.NameForKey(key), answer)
				}
			}
		}
		time.Sleep(5 * time.Second)
		if after := partitionsSeen(t, c.Nodes[1]); !reflect.DeepEqual(before, after) {
			t.Errorf("partitions were %+v, now they are %+v", before, after)
		}
		p := before[0]
		leader := c.Nodes[p.LeaderID-1]
		high := highWatermark(t, leader, p.Partition)
		for _, n := range c.Nodes {
			if n != leader {
				c.Isolate(n)
			}
		}
		at := produceAlone(t, leader, p.Partition)
		if at < high {
			t.Fatalf("the record is at %d, the high watermark was %d before", at, high)
		}
		for id := range int32(4) {
			for epoch := int64(-1); epoch < 60; epoch++ {
				if _, err := ask(t, leader, fetchAs(t, leader, id, epoch, p, at+1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if now := highWatermark(t, leader, p.Partition); now > at {
			t.Errorf("the high watermark is %d beyond the record at %d: a client passed for a follower", now, at)
		}
	})
}

// ask sends one request over a connection of its own.
func ask(t *testing.T, n *brokertest.Node, r kmsg.Request) (kmsg.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	conn, err := n.Conn(ctx, "stranger")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it has answered
	if r.Key() == 1 {
		return conn.Exchange(ctx, r) // in the version it has
	}
	r.SetVersion(r.MaxVersion())
	return conn.Exchange(ctx, r)
}

func highWatermark(t *testing.T, n *brokertest.Node, partition int32) int64 {
	t.Helper()
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.ReplicaID, r.MaxBytes = 12, -1, 1<<20
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = "t"
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.PartitionMaxBytes = partition, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	m, err := ask(t, n, r)
	if err != nil {
		t.Fatal(err)
	}
	p := m.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Fatalf("fetch: code %d", p.ErrorCode)
	}
	return p.HighWatermark
}

// produceAlone writes a record that the leader alone acknowledges.
func produceAlone(t *testing.T, n *brokertest.Node, partition int32) int64 {
	t.Helper()
	b := record.NewBuilder(record.None, 0)
	b.Append(record.Record{Timestamp: time.Now().UnixMilli(), Value: []byte("alone")})
	batch, err := b.Batch()
	if err != nil {
		t.Fatal(err)
	}
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = 1, 1000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = "t"
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, batch
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	conn, err := n.Conn(ctx, "stranger")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it has answered
	r.Version = 9
	m, err := conn.Exchange(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	p := m.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Fatalf("produce: code %d", p.ErrorCode)
	}
	return p.BaseOffset
}

// fetchAs is the fetch of a follower that has everything before an offset.
func fetchAs(t *testing.T, n *brokertest.Node, id int32, epoch int64, p kmsg.DescribeTopicPartitionsResponseTopicPartition, at int64) *kmsg.FetchRequest {
	t.Helper()
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.ReplicaID, r.MaxBytes = 12, id, 1<<20
	if epoch >= 0 {
		r.Version, r.ReplicaID = 17, -1
		r.ReplicaState.ID, r.ReplicaState.Epoch = id, epoch
	}
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = "t", idOf(t, n)
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.CurrentLeaderEpoch, rp.LogStartOffset, rp.PartitionMaxBytes = p.Partition, at, p.LeaderEpoch, 0, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r
}

func idOf(t *testing.T, n *brokertest.Node) [16]byte {
	t.Helper()
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	r.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}
	r.ResponsePartitionLimit = 100
	m, err := ask(t, n, r)
	if err != nil {
		t.Fatal(err)
	}
	return m.(*kmsg.DescribeTopicPartitionsResponse).Topics[0].TopicID
}

// TestStrangersAtThePeerListener: who lacks the key, has another one, speaks
// another language, or none, gets nowhere; nor does a member with requests that
// are not a follower's. The cluster goes on as if nobody had come.
func TestStrangersAtThePeerListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := []byte("a secret of the cluster")
		c := brokertest.NewCluster(t, 3)
		c.Change = func(b *broker.Config) { b.ClusterKey = key }
		c.StartAll()
		cl := c.Client("client", kgo.DefaultProduceTopic("t"))
		defer cl.Close()
		create(t, cl, "t", 3, 3, "min.insync.replicas", "2")
		l := newLoad()
		l.send(t, cl, "x", 30)
		awaitISR(t, c, 3)
		before := partitionsSeen(t, c.Nodes[1])
		dial := c.Fabric.Dialer("stranger")
		for _, said := range []string{"", "GET / HTTP/1.1\r\nHost: n1\r\n\r\n", "\x00\x00\x00\x20\x00\x12\x00\x03", "SLPR\x02", "SLPR\x01\x01"} {
			conn, err := dial(t.Context(), "n1:9093")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte(said)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 1)
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second)) // a pipe takes it
			if n, err := conn.Read(got); n > 0 || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %q: %q, %v", said, got[:n], err)
			}
			_ = conn.Close() // it is closed already
		}
		member := peer.Identity{Cluster: c.Nodes[0].Broker.ClusterID(), Node: 2}
		for name, has := range map[string][]byte{"no key": nil, "another key": []byte("a secret of the cluttered")} {
			p := openPeer(t, member, has, dial)
			for _, kind := range []peer.Kind{peer.Raft, peer.Kafka, peer.Calls} {
				if _, err := p.Dial(t.Context(), "n1:9093", kind, 1); !errors.Is(err, peer.ErrRefused) {
					t.Errorf("%s, kind %c: %v", name, kind, err)
				}
			}
		}
		p := openPeer(t, member, key, dial)
		for key := range int16(kmsg.MaxKey + 1) {
			if key != 1 && kmsg.RequestForKey(key) != nil {
				asPeer(t, p, kmsg.RequestForKey(key))
			}
		}
		time.Sleep(5 * time.Second)
		if after := partitionsSeen(t, c.Nodes[1]); !reflect.DeepEqual(before, after) {
			t.Errorf("partitions were %+v, now they are %+v", before, after)
		}
		l.send(t, cl, "y", 10)
		cl.Close()
		check(t, c, l)
	})
}

func openPeer(t *testing.T, self peer.Identity, key []byte, dial func(context.Context, string) (net.Conn, error)) *peer.Peers {
	t.Helper()
	p, err := peer.Open(peer.Config{Dial: dial, Key: key, Self: func() peer.Identity { return self }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() }) // it has served
	return p
}

// asPeer sends a request that is not a follower's as a broker would.
func asPeer(t *testing.T, p *peer.Peers, r kmsg.Request) {
	t.Helper()
	conn, err := p.Dial(t.Context(), "n1:9093", peer.Kafka, offsets.BrokerID(1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it is refused
	r.SetVersion(r.MaxVersion())
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("n2")).AppendRequest(nil, r, 7)
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second)) // a pipe takes it
	if _, err := conn.Write(frame); err != nil {
		return // it hung up at the header
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("%s of a broker is answered", kmsg.NameForKey(r.Key()))
	}
}
