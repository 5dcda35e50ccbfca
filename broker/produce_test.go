package broker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker"
	"sawlog/broker/brokertest"
)

// client is a kgo client of a broker.
func client(t testing.TB, b *broker.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.Addr()),
		kgo.AllowAutoTopicCreation(),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// within bounds what waits for a broker.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// consume reads n records of a topic from its start.
func consume(t testing.TB, b *broker.Broker, topic string, n int, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	c := client(t, b, append([]kgo.Opt{
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
	var got []*kgo.Record
	for len(got) < n {
		f := c.PollFetches(within(t))
		for _, e := range f.Errors() {
			t.Fatalf("%s/%d: %v", e.Topic, e.Partition, e.Err)
		}
		got = append(got, f.Records()...)
	}
	return got
}

func TestProduceAndConsumeAllCodecs(t *testing.T) {
	b := brokertest.Start(t, nil)
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			c := client(t, b, kgo.ProducerBatchCompression(codec))
			const n = 1000
			var records []*kgo.Record
			for i := range n {
				records = append(records, &kgo.Record{
					Topic: "codec-" + name, Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "value %d of %d, some of it again and again", i, n),
					Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}},
				})
			}
			if err := c.ProduceSync(within(t), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			for i, r := range consume(t, b, "codec-"+name, n) {
				if r.Offset != int64(i) || string(r.Key) != string(records[i].Key) || string(r.Value) != string(records[i].Value) || r.Headers[0].Value[0] != byte(i) {
					t.Fatalf("record %d: offset %d, %q = %q", i, r.Offset, r.Key, r.Value)
				}
			}
		})
	}
}
