package broker_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// ask sends a request at the highest version and returns its reply.
func ask[T kmsg.Response](t testing.TB, c *wire.Conn, r kmsg.Request) T {
	t.Helper()
	m, err := c.Request(within(t), r)
	if err != nil {
		t.Fatal(err)
	}
	return m.(T)
}

// askAt sends a request at a version.
func askAt[T kmsg.Response](t testing.TB, c *wire.Conn, version int16, r kmsg.Request) T {
	t.Helper()
	r.SetVersion(version)
	m, err := c.Exchange(within(t), r)
	if err != nil {
		t.Fatal(err)
	}
	return m.(T)
}

// createTopic makes a topic of n partitions and returns its id.
func createTopic(t testing.TB, c *wire.Conn, name string, n int32, configs ...string) [16]byte {
	t.Helper()
	got := tryCreate(t, c, name, n, configs...)
	if got.ErrorCode != 0 {
		t.Fatalf("create %s: code %d %v", name, got.ErrorCode, deref(got.ErrorMessage))
	}
	return got.TopicID
}

func tryCreate(t testing.TB, c *wire.Conn, name string, n int32, configs ...string) kmsg.CreateTopicsResponseTopic {
	t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, n, -1
	for i := 0; i < len(configs); i += 2 {
		rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	r.Topics = append(r.Topics, rt)
	return ask[*kmsg.CreateTopicsResponse](t, c, r).Topics[0]
}

func deref(s *string) string {
	if s == nil {
		return "<nil>"
	}
	return *s
}

// produceTo builds a Produce request of one partition.
func produceTo(topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = acks, 5000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, records
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r
}

// put produces bytes as they are and returns the partition's answer.
func put(t testing.TB, c *wire.Conn, topic string, records []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return askAt[*kmsg.ProduceResponse](t, c, 12, produceTo(topic, 0, -1, records)).Topics[0].Partitions[0]
}

// fetchFrom builds a Fetch request of one partition, at version 12.
func fetchFrom(topic string, partition int32, offset int64) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version = 12
	r.MaxBytes, r.SessionEpoch = 50<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, offset, 50<<20
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r
}

// get fetches one partition.
func get(t testing.TB, c *wire.Conn, topic string, offset int64) kmsg.FetchResponseTopicPartition {
	t.Helper()
	return askAt[*kmsg.FetchResponse](t, c, 12, fetchFrom(topic, 0, offset)).Topics[0].Partitions[0]
}

// listed asks for the offset of a time.
func listed(t testing.TB, c *wire.Conn, topic string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	return listedAt(t, c, 11, 0, topic, timestamp)
}

func listedAt(t testing.TB, c *wire.Conn, version int16, isolation int8, topic string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	r := kmsg.NewPtrListOffsetsRequest()
	r.IsolationLevel = isolation
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp = timestamp
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return askAt[*kmsg.ListOffsetsResponse](t, c, version, r).Topics[0].Partitions[0]
}

// batchOf builds a batch of values, one record each, a millisecond apart.
func batchOf(t testing.TB, codec record.Codec, first int64, values ...string) record.Batch {
	t.Helper()
	w := record.NewBuilder(codec, 0)
	for i, v := range values {
		w.Append(record.Record{Timestamp: first + int64(i), Key: []byte("k"), Value: []byte(v)})
	}
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func now() int64 { return time.Now().UnixMilli() }

// realData is a file of the test data beside the project.
func realData(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv("SAWLOG_TEST_DATA")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			if dir == filepath.Dir(dir) {
				t.Fatal("no go.mod above the test")
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared", "data")
	}
	path := filepath.Join(root, name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
			t.Fatal(err)
		}
		t.Skipf("test data absent: %s", name)
	}
	return path
}

func readData(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(realData(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
