package local_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/formats"
	"sawlog/loader"
)

// spread makes the topic with so many partitions and sends each so many records.
func (w *world) spread(partitions, each int, value func(partition, i int) string) {
	w.t.Helper()
	w.spec.Schema = &formats.Schema{Fields: []formats.Field{
		{Name: "_partition", Type: &formats.Type{Kind: formats.Int32}},
		{Name: "_offset", Type: &formats.Type{Kind: formats.Int64}},
		{Name: "text", Type: &formats.Type{Kind: formats.String}},
	}}
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "views", int32(partitions), 1
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 60_000
	got, err := req.RequestWith(w.t.Context(), w.client)
	if err == nil {
		err = kerr.ErrorForCode(got.Topics[0].ErrorCode)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.fill(partitions, each, value)
}

// fill sends each partition so many records.
func (w *world) fill(partitions, each int, value func(partition, i int) string) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.source.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for p := range partitions {
		for i := range each {
			records = append(records, &kgo.Record{Topic: "views", Partition: int32(p), Value: []byte(value(p, i))})
		}
	}
	if err := client.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// A thousand partitions of three records make two files an hour at most, and so do
// the next ones of a record each.
func TestManyPartitionsMakeFewFiles(t *testing.T) {
	const partitions, hours = 1000, 3
	w := newWorld(t, 1<<20)
	value := func(p, i int) string { return fmt.Sprintf(`{"ts":"2026-11-29T%02d:00:00Z","text":"%d"}`, i, p) }
	w.spread(partitions, hours, value)
	for run, each := range []int{hours, 1} {
		if run > 0 {
			w.fill(partitions, each, value)
		}
		out, err := w.driver.Run(t.Context(), w.plan(), loader.RunAsk{Run: fmt.Sprintf("r%d", run)})
		if err != nil {
			t.Fatal(err)
		}
		if out.Rows != int64(partitions*each) || len(out.Hours) != each || out.Files > int64(2*each) || len(out.Ranges) != partitions {
			t.Errorf("run %d: %d rows in %d files of %d hours, from %d ranges", run, out.Rows, out.Files, len(out.Hours), len(out.Ranges))
		}
	}
}

// A topic of more than four times the size a split aims at makes four splits or
// more, of one large partition as of many small ones, and every record is a row.
func TestLargeTopicsAreSplit(t *testing.T) {
	const target, bytes = 1 << 20, 9 << 19 // 4.5 times
	for partitions, each := range map[int]int{1: 4500, 30: 150} {
		t.Run(fmt.Sprintf("%d partitions", partitions), func(t *testing.T) {
			w := newWorld(t, 1<<20)
			text := noise(1 << 20)
			w.spread(partitions, each, func(p, i int) string {
				at := (p*each + i) * 211 % (len(text) - 1100)
				return fmt.Sprintf(`{"ts":"2026-11-29T09:00:00Z","text":"%s"}`, text[at:at+bytes/(partitions*each)])
			})
			w.spec.TargetBytes = target
			p := w.plan()
			if len(p.Splits) < 4 {
				t.Errorf("%d splits of a topic of %.1f times the target", len(p.Splits), float64(bytes)/target)
			}
			out, err := w.driver.Run(t.Context(), p, loader.RunAsk{Run: "r1", Parallelism: 2})
			if err != nil {
				t.Fatal(err)
			}
			if out.Rows != int64(partitions*each) || out.Files != int64(len(p.Splits)) {
				t.Errorf("%d rows of %d in %d files of %d splits", out.Rows, partitions*each, out.Files, len(p.Splits))
			}
		})
	}
}
