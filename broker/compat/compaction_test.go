package compat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// compactedSide is one of the two brokers that get the same batches.
type compactedSide struct {
	t    *testing.T
	name string
	conn *wire.Conn
	id   int64 // of its producer
}

// TestCompactionIsKafkas writes the same batches to Apache Kafka and to Sawlog,
// and compares what compaction leaves: records, their batches, sequences and
// delete horizons; then again when tombstones have had their time. Where Sawlog
// keeps more headers without records, those end its segments.
func TestCompactionIsKafkas(t *testing.T) {
	t.Parallel()                       // it waits most of its time
	const retention = 30 * time.Second // longer than it takes to write and compact
	servers := []*peer.Server{
		peer.Kafka(t, peer.Options{Args: []string{"log.cleaner.backoff.ms=1000"}}),
		peer.Sawlog(t, peer.Options{}),
	}
	sides := make([]*compactedSide, len(servers))
	for i, s := range servers {
		conn, err := wire.Dial(t.Context(), s.Addr, "compaction")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		sides[i] = &compactedSide{t: t, name: s.Name, conn: conn}
		sides[i].create(retention)
		sides[i].id = sides[i].initProducer()
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	w := &compactedWriter{now: time.Now().UnixMilli() - 60_000}
	for range 1600 {
		w.produce(t, rnd, sides)
	}
	first := sameLogs(t, sides, func(log string) bool { return strings.Contains(log, "horizon") })
	if !strings.Contains(first, "∅") || !strings.Contains(first, "horizon") || strings.Count(first, "\n") > 20_000 {
		t.Fatalf("%d lines are left:\n%s", strings.Count(first, "\n"), first)
	}
	for _, s := range sides {
		s.keep(time.Hour) // tombstones that are to come; those there have their horizon
	}
	time.Sleep(retention + time.Second) // Kafka's clock can't be set
	for range 1200 {
		w.produce(t, rnd, sides)
	}
	// The logs are equal before either broker has begun too: what tells that
	// both are through is that the old tombstones are gone.
	second := sameLogs(t, sides, func(log string) bool {
		before, still := oldTombstones(first, log)
		return still*2 <= before
	})
	before, still := oldTombstones(first, second)
	t.Logf("of %d tombstones %d are left", before, still)
}

// oldTombstones counts the tombstones of the first log, and those of them that
// the second still holds: they were in the active segment, or met late.
func oldTombstones(first, second string) (before, still int) {
	for line := range strings.Lines(first) {
		if strings.HasSuffix(line, "∅\n") {
			before++
			if strings.Contains(second, "\n"+line) {
				still++
			}
		}
	}
	return before, still
}

// compactedWriter makes the batches.
type compactedWriter struct {
	now int64
	seq int32
	n   int
}

// produce writes one batch to both; they must put it at the same offset.
func (w *compactedWriter) produce(t *testing.T, rnd *rand.Rand, sides []*compactedSide) {
	t.Helper()
	idempotent := rnd.IntN(2) == 0
	codec := record.Codec(rnd.IntN(5))
	count := 1 + rnd.IntN(60)
	var records []record.Record
	for range count {
		w.n++
		w.now += int64(rnd.IntN(3))
		r := record.Record{Timestamp: w.now, Key: fmt.Appendf(nil, "key %d", min(rnd.IntN(3000), rnd.IntN(3000)))}
		if rnd.IntN(8) > 0 {
			r.Value = fmt.Appendf(nil, "%d %x %x %x %x", w.n, rnd.Uint64(), rnd.Uint64(), rnd.Uint64(), rnd.Uint64())
		}
		records = append(records, r)
	}
	var at []int64
	for _, s := range sides {
		b := record.NewBuilder(codec, record.DefaultLevel)
		if idempotent {
			b.Producer(s.id, 0, w.seq)
		}
		for _, r := range records {
			b.Append(r)
		}
		batch, err := b.Batch()
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, s.produce(batch))
	}
	if idempotent {
		w.seq += int32(count)
	}
	if at[0] != at[1] {
		t.Fatalf("batch at %d and %d", at[0], at[1])
	}
}

// exchange sends a request at a version.
func exchange[T kmsg.Response](s *compactedSide, version int16, r kmsg.Request) T {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	r.SetVersion(version)
	m, err := s.conn.Exchange(ctx, r)
	if err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
	return m.(T)
}

func (s *compactedSide) create(retention time.Duration) {
	s.t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.TimeoutMillis = 30_000
	topic := kmsg.CreateTopicsRequestTopic{Topic: "states", NumPartitions: 1, ReplicationFactor: 1}
	for _, c := range [][2]string{
		{"cleanup.policy", "compact"}, {"segment.bytes", "1048576"}, {"min.cleanable.dirty.ratio", "0"}, {"delete.retention.ms", fmt.Sprint(retention.Milliseconds())},
	} {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: c[0], Value: &c[1]})
	}
	r.Topics = append(r.Topics, topic)
	if got := exchange[*kmsg.CreateTopicsResponse](s, 5, r).Topics[0]; got.ErrorCode != 0 {
		s.t.Fatalf("%s: create: code %d", s.name, got.ErrorCode)
	}
}

// keep sets how long tombstones stay that are compacted for the first time from now on.
func (s *compactedSide) keep(retention time.Duration) {
	s.t.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	topic := kmsg.NewIncrementalAlterConfigsRequestResource()
	topic.ResourceType, topic.ResourceName = kmsg.ConfigResourceTypeTopic, "states"
	value := fmt.Sprint(retention.Milliseconds())
	topic.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "delete.retention.ms", Op: kmsg.IncrementalAlterConfigOpSet, Value: &value}}
	r.Resources = append(r.Resources, topic)
	if got := exchange[*kmsg.IncrementalAlterConfigsResponse](s, 1, r).Resources[0]; got.ErrorCode != 0 {
		s.t.Fatalf("%s: delete.retention.ms: code %d", s.name, got.ErrorCode)
	}
}

func (s *compactedSide) initProducer() int64 {
	s.t.Helper()
	for range 300 {
		got := exchange[*kmsg.InitProducerIDResponse](s, 2, kmsg.NewPtrInitProducerIDRequest())
		if got.ErrorCode == 0 {
			return got.ProducerID
		}
		time.Sleep(100 * time.Millisecond) // a broker that has just started
	}
	s.t.Fatalf("%s: no producer id", s.name)
	return 0
}

func (s *compactedSide) produce(b record.Batch) int64 {
	s.t.Helper()
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = -1, 30_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "states"
	topic.Partitions = []kmsg.ProduceRequestTopicPartition{{Records: b}}
	r.Topics = append(r.Topics, topic)
	got := exchange[*kmsg.ProduceResponse](s, 9, r).Topics[0].Partitions[0]
	if got.ErrorCode != 0 {
		s.t.Fatalf("%s: produce: code %d", s.name, got.ErrorCode)
	}
	return got.BaseOffset
}

// log is what a log holds, in text: a line per batch with records, and a line
// per record; headers without records apart.
func (s *compactedSide) log() (lines string, headers []string) {
	s.t.Helper()
	var out strings.Builder
	var it record.Iterator
	for at, end := int64(0), int64(1); at < end; {
		r := kmsg.NewPtrFetchRequest()
		r.MaxBytes, r.MaxWaitMillis, r.ReplicaID = 8<<20, 100, -1
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = "states"
		part := kmsg.NewFetchRequestTopicPartition()
		part.FetchOffset, part.PartitionMaxBytes = at, 8<<20
		topic.Partitions = append(topic.Partitions, part)
		r.Topics = append(r.Topics, topic)
		got := exchange[*kmsg.FetchResponse](s, 11, r).Topics[0].Partitions[0]
		if got.ErrorCode != 0 {
			s.t.Fatalf("%s: fetch at %d: code %d", s.name, at, got.ErrorCode)
		}
		end = got.HighWatermark
		for data := got.RecordBatches; len(data) > 0; {
			b, rest, err := record.Split(data)
			if err != nil {
				break // the last one is cut short
			}
			data, at = rest, int64(b.LastOffset())+1
			line := fmt.Sprintf("batch %d..%d sequence %d", b.BaseOffset(), b.LastOffset(), b.BaseSequence())
			if b.Count() == 0 {
				headers = append(headers, line)
				continue
			}
			tombstone, records := false, ""
			if err := it.Reset(b); err != nil {
				s.t.Fatal(err)
			}
			for it.Next() {
				r := it.Record()
				value := string(r.Value)
				if r.Value == nil {
					value, tombstone = "∅", true
				}
				records += fmt.Sprintf("%d %d %s=%s\n", r.Offset, r.Timestamp, r.Key, value)
			}
			if b.HasDeleteHorizon() && tombstone { // else it is left from a run in between
				line += " horizon"
			}
			fmt.Fprintf(&out, "%s codec %s latest %d\n%s", line, b.Codec(), b.MaxTimestamp(), records)
		}
	}
	return out.String(), headers
}

// sameLogs waits until both brokers hold the same log and it is compacted, and
// returns what is left.
func sameLogs(t *testing.T, sides []*compactedSide, compacted func(log string) bool) string {
	t.Helper()
	var logs [2]string
	var headers [2][]string
	for range 150 {
		for i, s := range sides {
			logs[i], headers[i] = s.log()
		}
		if logs[0] == logs[1] && compacted(logs[0]) {
			for _, h := range headers[0] {
				if !slices.Contains(headers[1], h) {
					t.Errorf("%s keeps the header of %s, %s does not", sides[0].name, h, sides[1].name)
				}
			}
			t.Logf("%d lines; headers without records: %d and %d", strings.Count(logs[0], "\n"), len(headers[0]), len(headers[1]))
			return logs[0]
		}
		time.Sleep(time.Second) // compaction tells nobody
	}
	if logs[0] == logs[1] {
		t.Fatalf("neither broker has compacted its log of %d lines", strings.Count(logs[0], "\n"))
	}
	a, b := strings.Split(logs[0], "\n"), strings.Split(logs[1], "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("line %d of %d and %d:\n%s: %s\n%s: %s", i, len(a), len(b), sides[0].name, a[i], sides[1].name, b[i])
		}
	}
	t.Fatalf("%d and %d lines", len(a), len(b))
	return ""
}
