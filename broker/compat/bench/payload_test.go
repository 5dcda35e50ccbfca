package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
)

// batchBytes is the size of a replayed batch before compression: batch.size of
// Kafka's Java producer.
const batchBytes = 16 << 10

// values are n different record values of one size that look like log lines of
// services: they compress by about 4.
func values(n, size int) [][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	services := []string{"checkout", "search", "login", "basket", "recommend", "mail"}
	levels := []string{"info", "info", "info", "warn", "error"}
	out := make([][]byte, n)
	for i := range out {
		var b []byte
		for len(b) < size {
			b = fmt.Appendf(b, `{"at":%d,"service":%q,"level":%q,"trace":"%08x","user":%d,"took_ms":%d.%d}`,
				1700000000000+int64(i)*37, services[rng.IntN(len(services))], levels[rng.IntN(len(levels))],
				rng.Uint32(), rng.IntN(100000), rng.IntN(2000), rng.IntN(1000))
		}
		out[i] = b[:size]
	}
	return out
}

// codecs are the compressions by their names in the tables.
var codecs = map[string]record.Codec{"none": record.None, "zstd": record.Zstd}

// prebuilt is a Produce request ready to be sent again and again.
type prebuilt struct {
	frame   []byte
	records int // in all of its batches
	bytes   int // of their values
}

// produceFrame encodes a request with one batch for each of the partitions.
// Version 12 names topics.
func produceFrame(t testing.TB, topic string, partitions []int32, size int, codec string, now int64) prebuilt {
	t.Helper()
	perBatch := max(1, batchBytes/size)
	lines := values(perBatch, size)
	w := record.NewBuilder(codecs[codec], record.DefaultLevel)
	for i, line := range lines {
		w.Append(record.Record{Timestamp: now + int64(i), Value: line})
	}
	batch, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = 12, -1, 30000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	for _, p := range partitions {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p, batch
		rt.Partitions = append(rt.Partitions, rp)
	}
	r.Topics = append(r.Topics, rt)
	n := perBatch * len(partitions)
	return prebuilt{frame: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, r, 1), records: n, bytes: n * size}
}
