// Command franz writes and reads records by franz-go. Its scenario is kgo's own
// test suite, so it has none here.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"compat/line"
)

func main() { line.Main(client{}) }

type client struct{}

func (client) Write(addr, topic, codec string, records []line.Record) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ProducerBatchCompression(codecs[codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation(), kgo.ProducerLinger(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	var all []*kgo.Record
	for _, r := range records {
		k := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Time)}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		all = append(all, k)
	}
	return cl.ProduceSync(context.Background(), all...).FirstErr()
}

func (client) Read(addr, topic string, count int) ([]line.Record, error) {
	at := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(at))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var all []line.Record
	for len(all) < count {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d records: %w", len(all), err)
		}
		for r := range fetches.RecordsAll() {
			out := line.Record{Key: r.Key, Value: r.Value, Time: r.Timestamp.UnixMilli()}
			for _, h := range r.Headers {
				out.Headers = append(out.Headers, line.Header{Name: h.Key, Value: h.Value})
			}
			all = append(all, out)
		}
	}
	return all, nil
}

func (client) Suite(string, []string) error { return errors.New("see kgo's own tests") }
