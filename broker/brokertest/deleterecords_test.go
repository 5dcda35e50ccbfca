package brokertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
)

// TestDeletedRecordsAreGoneEverywhere: once DeleteRecords is answered no replica
// gives them to anybody; the answer waits for a replica whose broker is cut off
// until that is out of service, or the time is over.
func TestDeletedRecordsAreGoneEverywhere(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		send := func() {
			for range 10 {
				sendOne(t, cl, &kgo.Record{Topic: "t", Value: []byte("x")})
			}
		}
		send()
		topic, leader := knownID(t, cl), leaderOf(t, c, 0)
		began := time.Now()
		if code, low := deleteRecords(t, leader, 5, longWait); code != 0 || low != 5 {
			t.Fatalf("%v, low watermark %d", kerr.ErrorForCode(code), low)
		}
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("it took %v while all fetch", took)
		}
		for _, n := range c.Nodes {
			if start := startAt(t, n, topic, 5); start != 5 {
				t.Errorf("the log begins at %d on node %d", start, n.ID)
			}
		}
		for _, n := range c.Nodes { // a follower that isn't the controller, so that the leader stays
			if n == leader || n == controllerOf(t, c) {
				continue
			}
			c.Isolate(n)
			if code, low := deleteRecords(t, leader, 7, 200*time.Millisecond); code != kerr.RequestTimedOut.Code || low != 5 {
				t.Errorf("while node %d is silent: %v, low watermark %d", n.ID, kerr.ErrorForCode(code), low)
			}
			began = time.Now()
			if code, low := deleteRecords(t, leader, -1, longWait); code != 0 || low != 10 {
				t.Errorf("once node %d is out of service: %v, low watermark %d", n.ID, kerr.ErrorForCode(code), low)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
			break
		}
		c.Fabric.Heal()
		awaitISR(t, c, 3)
		send()
		if code, low := deleteRecords(t, leader, 15, longWait); code != 0 || low != 15 {
			t.Errorf("with all back: %v, low watermark %d", kerr.ErrorForCode(code), low)
		}
		for _, n := range c.Nodes {
			if start := startAt(t, n, topic, 15); start != 15 {
				t.Errorf("the log begins at %d on node %d", start, n.ID)
			}
		}
	}, kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// TestTrimmedWithinABatch: a partition whose records were deleted up to the middle
// of a batch is moved to brokers that have nothing of it, which have it, and go on,
// as any other.
func TestTrimmedWithinABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokertest.NewCluster(t, 3)
		c.StartAll()
		cl := c.Client("client", kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(10*time.Millisecond))
		defer cl.Close()
		create(t, cl, "t", 1, 1)
		send := func() {
			var records []*kgo.Record
			for range 10 {
				records = append(records, kgo.StringRecord("x"))
			}
			if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		send()
		if code, low := deleteRecords(t, leaderOf(t, c, 0), 5, longWait); code != 0 || low != 5 {
			t.Fatalf("%v, low watermark %d", kerr.ErrorForCode(code), low)
		}
		reassign(t, cl, 1, []int32{1, 2, 3})
		awaitISR(t, c, 3)
		topic := knownID(t, cl)
		for _, n := range c.Nodes {
			n.Kill()
			send()
			n.Start()
			c.Settle()
			awaitISR(t, c, 3)
		}
		for _, n := range c.Nodes {
			if start := startAt(t, n, topic, 5); start != 5 {
				t.Errorf("the log begins at %d on node %d", start, n.ID)
			}
		}
		reader := c.Client("reader", kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
		defer reader.Close()
		for next := int64(5); next < 40; {
			for _, r := range reader.PollFetches(t.Context()).Records() {
				if r.Offset != next {
					t.Fatalf("offset %d is read, want %d", r.Offset, next)
				}
				next++
			}
		}
	})
}

// deleteRecords deletes records of partition 0 of topic t at its leader.
func deleteRecords(t *testing.T, n *brokertest.Node, to int64, timeout time.Duration) (code int16, low int64) {
	t.Helper()
	r := kmsg.NewPtrDeleteRecordsRequest()
	r.TimeoutMillis = int32(timeout.Milliseconds())
	r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: to}}}}
	p := answerOf(t, n, r).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	return p.ErrorCode, p.LowWatermark
}

// startAt is where the log of partition 0 of topic t begins on a node, as it
// tells a consumer that reads from an offset.
func startAt(t *testing.T, n *brokertest.Node, topic [16]byte, from int64) int64 {
	t.Helper()
	r := kmsg.NewPtrFetchRequest()
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = "t", topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = from, 1000
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return answerOf(t, n, r).(*kmsg.FetchResponse).Topics[0].Partitions[0].LogStartOffset
}

// answerOf sends one request to a node.
func answerOf(t *testing.T, n *brokertest.Node, r kmsg.Request) kmsg.Response {
	t.Helper()
	conn, err := n.Conn(t.Context(), "beside")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it has answered
	m, err := conn.Request(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
