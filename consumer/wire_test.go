package consumer

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// wireCluster is a Cluster of one broker over a plain connection.
type wireCluster struct{ conn *wire.Conn }

func (c wireCluster) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return c.conn.Request(ctx, req)
}

func (c wireCluster) Broker(int32) Requestor { return c }

// The same reads through kgo and over plain connections, of a real broker.
func TestReadersAgree(t *testing.T) {
	b := brokertest.Start(t, func(c *broker.Config) { c.Defaults = map[string]string{"retention.ms": "-1"} })
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(10),
		kgo.ProducerBatchCompression(kgo.SnappyCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 5000 {
		client.Produce(t.Context(), &kgo.Record{Topic: "views", Value: fmt.Appendf(nil, "%d", i), Timestamp: time.UnixMilli(int64(1_000_000 + i))}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	kafka, err := Dial(t.Context(), Config{Brokers: []string{b.Addr()}, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	conn, err := wire.Dial(t.Context(), b.Addr(), BatchClient+"test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for name, c := range map[string]Cluster{"kgo": kafka, "wire": wireCluster{conn}} {
		t.Run(name, func(t *testing.T) {
			topics, cluster, err := Describe(t.Context(), c, []string{"views"}, "")
			if err != nil || cluster == "" || topics[0].ID.IsZero() || topics[0].Partitions[0].LastStable != 5000 || topics[0].Partitions[0].Size <= 0 {
				t.Fatalf("%+v %q %v", topics, cluster, err)
			}
			at, err := OffsetForTime(t.Context(), c, []offsets.TopicPartition{views}, 1_002_000)
			if err != nil || at[views] != 2000 {
				t.Errorf("offset for time %v %v", at, err)
			}
			rd := NewReader(c, views, topics[0].ID, rng(17, 4321), Options{FetchBytes: 3000})
			defer rd.Close()
			for i := 17; ; i++ {
				rec, err := rd.Next(t.Context())
				if err == io.EOF {
					if i != 4321 {
						t.Errorf("ended at %d", i)
					}
					break
				}
				if err != nil || string(rec.Value) != fmt.Sprint(i) || rec.Offset != offsets.Offset(i) {
					t.Fatalf("record %d: %+v %v", i, rec, err)
				}
			}
		})
	}
}
