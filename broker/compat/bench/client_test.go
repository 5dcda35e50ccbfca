package bench

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// compressions of kgo by their names in the tables.
var compressions = map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "zstd": kgo.ZstdCompression()}

// client makes a kgo client that is closed with the test, or before.
func client(t testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.ClientID("bench")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// kgoProduce produces records of static values, idempotently and with acks=all
// as kgo does by default, until the volume of a run is reached, or the context
// ends and an eighth of it is: of less, what a client costs to begin with would
// be a part that shows. It returns how many were acknowledged.
func kgoProduce(ctx context.Context, t testing.TB, addr, topic, codec string, size int) int64 {
	t.Helper()
	c := client(t, addr, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(compressions[codec]),
		kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(1<<20), kgo.MaxBufferedBytes(64<<20))
	defer c.Close()
	lines := values(max(1, batchBytes/size), size)
	var acks, failures atomic.Int64
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failures.Add(1)
			return
		}
		acks.Add(1)
	}
	background := context.Background()
	for i := 0; i%256 != 0 || i*size < *volume && (ctx.Err() == nil || i*size < *volume/8); i++ {
		c.Produce(background, &kgo.Record{Value: lines[i%len(lines)]}, promise)
	}
	flushing, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	if err := c.Flush(flushing); err != nil {
		t.Fatalf("kgo to %s: %v", addr, err)
	}
	if n := failures.Load(); n > 0 {
		t.Fatalf("kgo to %s: %d records were not taken", addr, n)
	}
	return acks.Load()
}

// kgoFetch reads all records there are, again and again, until the context ends,
// at least once, and returns how many came.
func kgoFetch(ctx context.Context, t testing.TB, addr, topic string, partitions int32, there int64) int64 {
	t.Helper()
	start := map[string]map[int32]kgo.Offset{topic: {}}
	for p := range partitions {
		start[topic][p] = kgo.NewOffset().AtStart()
	}
	c := client(t, addr, kgo.ConsumePartitions(start))
	defer c.Close()
	limit, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var all int64
	for {
		for got := int64(0); got < there; {
			fetched := c.PollFetches(limit)
			if err := fetched.Err(); err != nil {
				t.Fatalf("kgo from %s: %v", addr, err)
			}
			got += int64(fetched.NumRecords())
		}
		all += there
		if ctx.Err() != nil {
			return all
		}
		c.RemoveConsumePartitions(map[string][]int32{topic: indexes(partitions)})
		c.AddConsumePartitions(start)
	}
}
