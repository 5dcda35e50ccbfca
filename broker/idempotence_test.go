package broker_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
	"sawlog/broker/record"
)

func TestIdempotentSequences(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "i", 1)
	id := ask[*kmsg.InitProducerIDResponse](t, c, kmsg.NewPtrInitProducerIDRequest())
	other := ask[*kmsg.InitProducerIDResponse](t, c, kmsg.NewPtrInitProducerIDRequest())
	if id.ErrorCode != 0 || id.ProducerEpoch != 0 || id.ProducerID == other.ProducerID {
		t.Fatalf("producer ids %+v and %+v", id, other)
	}
	send := func(epoch int16, seq int32, values ...string) kmsg.ProduceResponseTopicPartition {
		w := record.NewBuilder(record.None, 0)
		w.Producer(id.ProducerID, epoch, seq)
		for _, v := range values {
			w.Append(record.Record{Timestamp: now(), Value: []byte(v)})
		}
		b, err := w.Batch()
		if err != nil {
			t.Fatal(err)
		}
		return put(t, c, "i", b)
	}
	for _, step := range []struct {
		name   string
		epoch  int16
		seq    int32
		values []string
		code   int16
		base   int64
	}{
		{"not the first, on a new partition", 0, 5, []string{"x"}, kerr.OutOfOrderSequenceNumber.Code, -1},
		{"first", 0, 0, []string{"a", "b"}, 0, 0},
		{"next", 0, 2, []string{"c"}, 0, 2},
		{"the first again", 0, 0, []string{"a", "b"}, 0, 0},
		{"the next again", 0, 2, []string{"c"}, 0, 2},
		{"a gap", 0, 9, []string{"x"}, kerr.OutOfOrderSequenceNumber.Code, -1},
		{"new epoch, not from 0", 1, 3, []string{"x"}, kerr.OutOfOrderSequenceNumber.Code, -1},
		{"new epoch", 1, 0, []string{"d"}, 0, 3},
		{"old epoch", 0, 3, []string{"x"}, kerr.InvalidProducerEpoch.Code, -1},
	} {
		got := send(step.epoch, step.seq, step.values...)
		if got.ErrorCode != step.code || got.BaseOffset != step.base {
			t.Errorf("%s: code %d, offset %d; want %d, %d", step.name, got.ErrorCode, got.BaseOffset, step.code, step.base)
		}
	}
	if end := listed(t, c, "i", -1); end.Offset != 4 {
		t.Errorf("%d records stored", end.Offset)
	}
}

func TestProduceErrorsArePerPartition(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	createTopic(t, c, "p", 2)
	for _, version := range []int16{3, 7, 9, 12} {
		r := produceTo("p", 0, 1, batchOf(t, record.None, now(), "good"))
		for _, bad := range []struct {
			partition int32
			records   []byte
		}{{1, []byte("rubbish that is no batch, but long enough to look like one, if nobody checks it")}, {7, batchOf(t, record.None, now(), "x")}} {
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition, rp.Records = bad.partition, bad.records
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, rp)
		}
		absent := kmsg.NewProduceRequestTopic()
		absent.Topic = "absent"
		absent.Partitions = produceTo("", 0, 1, batchOf(t, record.None, now(), "x")).Topics[0].Partitions
		r.Topics = append(r.Topics, absent)
		m := askAt[*kmsg.ProduceResponse](t, c, version, r)
		var codes []int16
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
		want := []int16{0, kerr.CorruptMessage.Code, kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicOrPartition.Code}
		if fmt.Sprint(codes) != fmt.Sprint(want) {
			t.Errorf("version %d: codes %v, want %v", version, codes, want)
		}
	}
	zstd := askAt[*kmsg.ProduceResponse](t, c, 6, produceTo("p", 0, 1, batchOf(t, record.Zstd, now(), "aaaaaaaaaaaaaaaaaaaaaaaa")))
	if got := zstd.Topics[0].Partitions[0].ErrorCode; got != kerr.UnsupportedCompressionType.Code {
		t.Errorf("zstd in version 6: code %d", got)
	}
	acks := askAt[*kmsg.ProduceResponse](t, c, 9, produceTo("p", 0, 2, batchOf(t, record.None, now(), "x")))
	if got := acks.Topics[0].Partitions[0].ErrorCode; got != kerr.InvalidRequiredAcks.Code {
		t.Errorf("acks 2: code %d", got)
	}
	internal := askAt[*kmsg.ProduceResponse](t, c, 9, produceTo("__consumer_offsets", 0, 1, batchOf(t, record.None, now(), "x")))
	if got := internal.Topics[0].Partitions[0].ErrorCode; got == 0 {
		t.Error("a client wrote to the offsets topic")
	}
	future := put(t, c, "p", batchOf(t, record.None, now()+2*3600*1000, "tomorrow"))
	if future.ErrorCode != kerr.InvalidTimestamp.Code {
		t.Errorf("two hours ahead: code %d", future.ErrorCode)
	}
	two := append(batchOf(t, record.None, now(), "a"), batchOf(t, record.None, now(), "b")...)
	if got := put(t, c, "p", two); got.ErrorCode != kerr.InvalidRecord.Code {
		t.Errorf("two batches: code %d", got.ErrorCode)
	}
	if b.Metrics().ProduceErrors == 0 || b.Metrics().ProduceBatches != 4 {
		t.Errorf("metrics %+v", b.Metrics())
	}
}

func TestAcksZero(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	createTopic(t, c, "zero", 1)
	r := produceTo("zero", 0, 0, batchOf(t, record.None, now(), "x"))
	r.Version = 9
	if _, err := c.Exchange(within(t), r); err != nil {
		t.Fatal(err)
	}
	// The next reply on the connection is that of the next request.
	if end := listed(t, c, "zero", -1); end.Offset != 1 {
		t.Errorf("end %d", end.Offset)
	}
	bad := produceTo("absent", 0, 0, batchOf(t, record.None, now(), "x"))
	bad.Version = 9
	if _, err := c.Exchange(within(t), bad); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Request(within(t), kmsg.NewPtrMetadataRequest()); err == nil {
		t.Error("the connection outlived an error it couldn't be told of")
	}
}

func TestCompressionTypeOfTheTopic(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		name := codec.String()
		if codec == record.None {
			name = "uncompressed"
		}
		createTopic(t, c, "to-"+name, 1, "compression.type", name)
		for _, sent := range []record.Codec{record.None, record.Gzip, codec} {
			if got := put(t, c, "to-"+name, batchOf(t, sent, now(), "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaa")); got.ErrorCode != 0 {
				t.Fatalf("%s to %s: code %d %s", sent, name, got.ErrorCode, deref(got.ErrorMessage))
			}
		}
		rest := get(t, c, "to-"+name, 0).RecordBatches
		for n := 0; len(rest) > 0; n++ {
			batch, more, err := record.Split(rest)
			if err != nil || batch.Codec() != codec || batch.CheckCRC() != nil || batch.Count() != 2 {
				t.Fatalf("%s: batch %d has codec %s, %d records, %v", name, n, batch.Codec(), batch.Count(), err)
			}
			rest = more
		}
	}
	// An old client can't be given zstd.
	r := fetchFrom("to-zstd", 0, 0)
	if got := askAt[*kmsg.FetchResponse](t, c, 9, r).Topics[0].Partitions[0]; got.ErrorCode != kerr.UnsupportedCompressionType.Code {
		t.Errorf("fetch version 9 of a zstd topic: code %d", got.ErrorCode)
	}
}

func TestListOffsets(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "l", 1, "retention.ms", "-1")
	t0 := int64(1_700_000_000_000)
	for i, codec := range []record.Codec{record.None, record.Gzip, record.Zstd} {
		if got := put(t, c, "l", batchOf(t, codec, t0+int64(i)*1000, "a", "b", "c", "d")); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
	}
	for _, tc := range []struct {
		name    string
		version int16
		ts      int64
		code    int16
		offset  int64
		time    int64
	}{
		{"latest", 11, -1, 0, 12, -1},
		{"latest, oldest version", 1, -1, 0, 12, -1},
		{"earliest", 11, -2, 0, 0, -1},
		{"max timestamp", 11, -3, 0, 11, t0 + 2003},
		{"max timestamp, too old", 6, -3, kerr.UnsupportedVersion.Code, -1, -1},
		{"earliest local", 8, -4, 0, 0, -1},
		{"earliest local, too old", 7, -4, kerr.UnsupportedVersion.Code, -1, -1},
		{"latest tiered", 9, -5, 0, -1, -1},
		{"pending upload", 11, -6, 0, -1, -1},
		{"pending upload, too old", 10, -6, kerr.UnsupportedVersion.Code, -1, -1},
		{"nonsense", 11, -7, kerr.UnsupportedVersion.Code, -1, -1},
		{"before all", 11, 0, 0, 0, t0},
		{"inside a compressed batch", 11, t0 + 1002, 0, 6, t0 + 1002},
		{"between batches", 11, t0 + 500, 0, 4, t0 + 1000},
		{"after all", 11, t0 + 9999, 0, -1, -1},
	} {
		got := listedAt(t, c, tc.version, 0, "l", tc.ts)
		if got.ErrorCode != tc.code || got.Offset != tc.offset || got.Timestamp != tc.time {
			t.Errorf("%s: code %d, offset %d, time %d; want %d, %d, %d", tc.name, got.ErrorCode, got.Offset, got.Timestamp, tc.code, tc.offset, tc.time)
		}
		if tc.version >= 4 && tc.offset >= 0 && got.LeaderEpoch < 0 {
			t.Errorf("%s: no leader epoch", tc.name)
		}
	}
	r := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = "l"
	for range 2 {
		rt.Partitions = append(rt.Partitions, kmsg.NewListOffsetsRequestTopicPartition())
	}
	r.Topics = append(r.Topics, rt)
	for _, p := range ask[*kmsg.ListOffsetsResponse](t, c, r).Topics[0].Partitions {
		if p.ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("asked twice: code %d", p.ErrorCode)
		}
	}
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	et := kmsg.NewOffsetForLeaderEpochRequestTopic()
	et.Topic = "l"
	ep := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	ep.CurrentLeaderEpoch, ep.LeaderEpoch = -1, listed(t, c, "l", -1).LeaderEpoch
	et.Partitions = append(et.Partitions, ep)
	epochs.Topics = append(epochs.Topics, et)
	if got := ask[*kmsg.OffsetForLeaderEpochResponse](t, c, epochs).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.EndOffset != 12 {
		t.Errorf("end of the epoch: %+v", got)
	}
	for _, tc := range []struct{ to, low, code int64 }{{4, 4, 0}, {2, 4, 0}, {13, -1, int64(kerr.OffsetOutOfRange.Code)}} {
		if got := deleteTo(t, c, "l", tc.to); got.LowWatermark != tc.low || int64(got.ErrorCode) != tc.code {
			t.Errorf("delete below %d: %+v", tc.to, got)
		}
	}
	if got := listed(t, c, "l", -2); got.Offset != 4 {
		t.Errorf("start %d after deleting below 4", got.Offset)
	}
	if got := get(t, c, "l", 3); got.ErrorCode != kerr.OffsetOutOfRange.Code || got.LogStartOffset != -1 || got.HighWatermark != -1 {
		t.Errorf("fetch below the start: %+v", got)
	}
}

func TestGroupsThroughKgo(t *testing.T) {
	t.Parallel() // it waits for a group, or for kcat
	b := brokertest.Start(t, nil)
	createTopic(t, wireClient(t, b), "shared", 4)
	p := client(t, b)
	const n = 400
	for i := range n {
		p.Produce(within(t), &kgo.Record{Topic: "shared", Key: fmt.Appendf(nil, "%d", i), Value: fmt.Appendf(nil, "%d", i)}, nil)
	}
	if err := p.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var members []*kgo.Client
	for range 2 {
		members = append(members, client(t, b, kgo.ConsumerGroup("pair"), kgo.ConsumeTopics("shared"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitMarks()))
	}
	records := make(chan *kgo.Record, n)
	for _, m := range members {
		go func() {
			for {
				f := m.PollFetches(within(t))
				if f.IsClientClosed() {
					return
				}
				for _, r := range f.Records() {
					records <- r
				}
			}
		}()
	}
	for len(seen) < n {
		select {
		case r := <-records:
			seen[string(r.Value)] = true
		case <-within(t).Done():
			t.Fatalf("%d of %d records", len(seen), n)
		}
	}
	c := wireClient(t, b)
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"pair"}
	g := ask[*kmsg.DescribeGroupsResponse](t, c, describe).Groups[0]
	if g.ErrorCode != 0 || g.State == "Dead" || g.ProtocolType != "consumer" {
		t.Errorf("group %+v", g)
	}
	list := ask[*kmsg.ListGroupsResponse](t, c, kmsg.NewPtrListGroupsRequest())
	if len(list.Groups) != 1 || list.Groups[0].Group != "pair" {
		t.Errorf("groups %+v", list.Groups)
	}
}
