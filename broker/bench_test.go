package broker_test

import (
	"strings"
	"testing"

	"sawlog/broker/brokertest"
	"sawlog/broker/record"
)

// BenchmarkProduce appends batches of 1000 records of 1 KiB over loopback.
func BenchmarkProduce(b *testing.B) {
	br := brokertest.Start(b, nil)
	createTopic(b, wireClient(b, br), "bench", 1, "retention.bytes", "1073741824", "segment.bytes", "268435456")
	values := make([]string, 1000)
	for i := range values {
		values[i] = strings.Repeat("v", 1000)
	}
	batch := batchOf(b, record.None, now(), values...)
	r := produceTo("bench", 0, -1, batch)
	r.Version = 12
	p := newReplay(b, br.Addr(), r)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		p.once(b)
	}
}

// BenchmarkFetch reads 16 MiB at a time over loopback.
func BenchmarkFetch(b *testing.B) {
	br := brokertest.Start(b, nil)
	c := wireClient(b, br)
	createTopic(b, c, "bench", 1)
	big := strings.Repeat("x", 1<<20-200)
	for range 16 {
		if got := put(b, c, "bench", batchOf(b, record.None, now(), big)); got.ErrorCode != 0 {
			b.Fatal(got.ErrorCode)
		}
	}
	p := newReplay(b, br.Addr(), fetchFrom("bench", 0, 0))
	b.SetBytes(int64(len(p.reply)))
	b.ReportAllocs()
	for b.Loop() {
		p.once(b)
	}
}

// BenchmarkFetchIdle polls 1000 idle partitions over loopback, with and without a
// session.
func BenchmarkFetchIdle(b *testing.B) {
	const n = 1000
	br := brokertest.Start(b, nil)
	createTopic(b, wireClient(b, br), "idle", n)
	b.Run("session", func(b *testing.B) {
		p := newSessionReplay(b, br.Addr(), "idle", n)
		b.ReportAllocs()
		for epoch := uint32(21); b.Loop(); epoch++ {
			p.ask(b, epoch)
		}
	})
	b.Run("full", func(b *testing.B) {
		r := fetchFrom("idle", 0, 0)
		for i := int32(1); i < n; i++ {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, fetchFrom("idle", i, 0).Topics[0].Partitions...)
		}
		p := newReplay(b, br.Addr(), r)
		b.ReportAllocs()
		for b.Loop() {
			p.once(b)
		}
	})
}
