package broker_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// 32: special positions by version, and what is answered for those a version
// doesn't have.
func TestTrap32SpecialOffsets(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	t0 := now() - 10_000
	createTopic(t, c, "t", 1)
	createTopic(t, c, "empty", 1)
	if got := put(t, c, "t", batchOf(t, record.None, t0, "a", "b", "c")); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	type found struct{ offset, time int64 }
	none := found{-1, -1}
	for _, tc := range []struct {
		special       int64
		since         int16 // version
		first, inNone found
	}{
		{-1, 1, found{3, -1}, found{0, -1}},
		{-2, 1, found{0, -1}, found{0, -1}},
		{-3, 7, found{2, t0 + 2}, none},
		{-4, 8, found{0, -1}, found{0, -1}},
		{-5, 9, none, none},
		{-6, 11, none, none},
		{-7, 99, none, none},
		{math.MinInt64, 99, none, none},
		{t0 + 1, 1, found{1, t0 + 1}, none},
		{t0 + 3, 1, none, none},
		{0, 1, found{0, t0}, none},
		{math.MaxInt64, 1, none, none},
	} {
		for version := int16(1); version <= 11; version++ {
			for topic, want := range map[string]found{"t": tc.first, "empty": tc.inNone, "absent": none} {
				code := int16(0)
				switch {
				case version < tc.since:
					code, want = kerr.UnsupportedVersion.Code, none
				case topic == "absent":
					code = kerr.UnknownTopicOrPartition.Code
				}
				for isolation := range int8(2) {
					if version < 2 && isolation > 0 {
						continue
					}
					got := listedAt(t, c, version, isolation, topic, tc.special)
					if got.ErrorCode != code || got.Offset != want.offset || got.Timestamp != want.time {
						t.Errorf("%d of %s, version %d: %+v, want code %d, %+v", tc.special, topic, version, got, code, want)
					}
					if epoch := got.LeaderEpoch >= 0; version >= 4 && epoch != (want.offset >= 0) {
						t.Errorf("%d of %s, version %d: leader epoch %d", tc.special, topic, version, got.LeaderEpoch)
					}
				}
			}
		}
	}
	r := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = "t"
	for _, at := range []int64{-1, -2, -99} {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Timestamp = at
		rt.Partitions = append(rt.Partitions, rp)
	}
	rt.Partitions = append(rt.Partitions, kmsg.ListOffsetsRequestTopicPartition{Partition: 4, Timestamp: -1})
	r.Topics = append(r.Topics, rt)
	var codes []int16
	for _, p := range ask[*kmsg.ListOffsetsResponse](t, c, r).Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	if fmt.Sprint(codes) != fmt.Sprint([]int16{kerr.InvalidRequest.Code, kerr.UnknownTopicOrPartition.Code}) {
		t.Errorf("asked thrice, and another once: codes %v", codes)
	}
	for current, want := range map[int32]*kerr.Error{99: kerr.UnknownLeaderEpoch, -2: kerr.FencedLeaderEpoch} {
		rt.Partitions = rt.Partitions[:1]
		rt.Partitions[0].CurrentLeaderEpoch = current
		r.Topics[0] = rt
		if got := ask[*kmsg.ListOffsetsResponse](t, c, r).Topics[0].Partitions[0]; got.ErrorCode != want.Code || got.Offset != -1 {
			t.Errorf("epoch %d: %+v", current, got)
		}
	}
}

// 33: times are those of records, inside of batches too, and need not rise; the
// leader epoch is that of the record found.
func TestTrap33OffsetsOfTimes(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, func(c *broker.Config) { c.Dir = dir })
	c := wireClient(t, b)
	createTopic(t, c, "t", 1, "segment.bytes", "400", "index.interval.bytes", "0", "retention.ms", "-1")
	base := now() - 1000_000
	write := func(codec record.Codec, times ...int64) {
		t.Helper()
		w := record.NewBuilder(codec, 0)
		for _, at := range times {
			w.Append(record.Record{Timestamp: base + at, Key: []byte("k"), Value: []byte("v")})
		}
		batch, err := w.Batch()
		if err != nil {
			t.Fatal(err)
		}
		if got := put(t, c, "t", batch); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
	}
	write(record.None, 0, 500, 100) // 0 1 2
	write(record.Zstd, 50, 60, 70)  // 3 4 5: older than what is before
	write(record.Gzip, 800, 300)    // 6 7
	first := listed(t, c, "t", -1).LeaderEpoch
	brokertest.Stop(t, b)
	b = brokertest.Start(t, func(c *broker.Config) { c.Dir = dir })
	c = wireClient(t, b)
	write(record.LZ4, 700, 900, 900) // 8 9 10
	second := listed(t, c, "t", -1).LeaderEpoch
	if first >= second {
		t.Fatalf("epochs %d and %d", first, second)
	}
	check := func(what string, at, offset, time int64, epoch int32) {
		t.Helper()
		got := listed(t, c, "t", at)
		if got.ErrorCode != 0 || got.Offset != offset || got.Timestamp != time || got.LeaderEpoch != epoch {
			t.Errorf("%s: %+v, want offset %d, time %d, epoch %d", what, got, offset, time, epoch)
		}
	}
	for _, tc := range []struct{ at, offset, time int64 }{
		{0, 0, 0}, {1, 1, 500}, {101, 1, 500}, {500, 1, 500}, {501, 6, 800}, {800, 6, 800},
	} {
		check(fmt.Sprint(tc.at), base+tc.at, tc.offset, base+tc.time, first)
	}
	check("801", base+801, 9, base+900, second)
	check("the greatest", -3, 9, base+900, second)
	check("the first", -2, 0, -1, first)
	check("none", base+901, -1, -1, -1)
	deleteTo(t, c, "t", 2)
	check("0, when it is deleted", base, 2, base+100, first)
	check("101, when 1 is deleted", base+101, 6, base+800, first)

	createTopic(t, c, "stamped", 1, "message.timestamp.type", "LogAppendTime")
	var stamps []int64
	for i := range 3 {
		got := put(t, c, "stamped", batchOf(t, []record.Codec{record.None, record.Zstd, record.None}[i], base, "a", "b", "c"))
		if got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
		stamps = append(stamps, got.LogAppendTime)
		for now() <= got.LogAppendTime {
			time.Sleep(time.Millisecond) // the broker's clock is the system's
		}
	}
	for i, stamp := range stamps {
		if got := listed(t, c, "stamped", stamp); got.Offset != int64(3*i) || got.Timestamp != stamp {
			t.Errorf("LogAppendTime %d: %+v", i, got)
		}
	}
	if got := listed(t, c, "stamped", -3); got.Offset != 6 || got.Timestamp != stamps[2] { // KAFKA-16342
		t.Errorf("the greatest LogAppendTime: %+v, want offset 6, time %d", got, stamps[2])
	}
}

// 46: DeleteRecords.
func TestTrap46DeleteRecords(t *testing.T) {
	dir := t.TempDir()
	b := brokertest.Start(t, func(c *broker.Config) { c.Dir = dir })
	c := wireClient(t, b)
	createTopic(t, c, "t", 2)
	createTopic(t, c, "compacted", 1, "cleanup.policy", "compact")
	createTopic(t, c, "both", 1, "cleanup.policy", "compact,delete")
	for _, topic := range []string{"t", "compacted", "both"} {
		if got := put(t, c, topic, batchOf(t, record.None, now(), "a", "b", "c", "d", "e")); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
	}
	deleted := func(c *wire.Conn, version int16, topic string, partition int32, to ...int64) []kmsg.DeleteRecordsResponseTopicPartition {
		t.Helper()
		r := kmsg.NewPtrDeleteRecordsRequest()
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic = topic
		for _, at := range to {
			rp := kmsg.NewDeleteRecordsRequestTopicPartition()
			rp.Partition, rp.Offset = partition, at
			rt.Partitions = append(rt.Partitions, rp)
		}
		r.Topics = append(r.Topics, rt)
		return askAt[*kmsg.DeleteRecordsResponse](t, c, version, r).Topics[0].Partitions
	}
	for _, tc := range []struct {
		topic     string
		partition int32
		to        int64
		code      *kerr.Error
		low       int64
	}{
		{"t", 0, 2, nil, 2},
		{"t", 0, 2, nil, 2},
		{"t", 0, 1, nil, 2},
		{"t", 0, 0, nil, 2},
		{"t", 0, -2, kerr.OffsetOutOfRange, -1},
		{"t", 0, 6, kerr.OffsetOutOfRange, -1},
		{"t", 0, 5, nil, 5},
		{"t", 0, -1, nil, 5},
		{"t", 1, -1, nil, 0},
		{"t", 1, 1, kerr.OffsetOutOfRange, -1},
		{"t", 2, 0, kerr.UnknownTopicOrPartition, -1},
		{"t", -1, 0, kerr.UnknownTopicOrPartition, -1},
		{"absent", 0, 0, kerr.UnknownTopicOrPartition, -1},
		{"compacted", 0, 1, kerr.PolicyViolation, -1},
		{"both", 0, 1, nil, 1},
	} {
		for version := range int16(3) {
			got := deleted(c, version, tc.topic, tc.partition, tc.to)
			want := int16(0)
			if tc.code != nil {
				want = tc.code.Code
			}
			if len(got) != 1 || got[0].ErrorCode != want || got[0].LowWatermark != tc.low || got[0].Partition != tc.partition {
				t.Errorf("%s/%d to %d, version %d: %+v, want code %d, %d", tc.topic, tc.partition, tc.to, version, got, want, tc.low)
			}
		}
	}
	if got := deleted(c, 2, "both", 0, 4, 2); len(got) != 1 || got[0].LowWatermark != 2 {
		t.Errorf("asked twice: %+v", got)
	}
	find := kmsg.NewPtrFindCoordinatorRequest() // which makes the internal topic
	find.CoordinatorKeys = []string{"g"}
	ask[*kmsg.FindCoordinatorResponse](t, c, find)
	if got := deleted(c, 2, "__consumer_offsets", 0, 0); got[0].ErrorCode != kerr.InvalidTopicException.Code {
		t.Errorf("an internal topic: %+v", got)
	}
	if got := get(t, c, "both", 1); got.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("what was deleted is read: %+v", got)
	}
	brokertest.Stop(t, b)
	c = wireClient(t, brokertest.Start(t, func(c *broker.Config) { c.Dir = dir }))
	for topic, start := range map[string]int64{"t": 5, "both": 2, "compacted": 0} {
		if got := listed(t, c, topic, -2); got.Offset != start {
			t.Errorf("%s starts at %d after a restart, want %d", topic, got.Offset, start)
		}
	}
	if got := put(t, c, "t", batchOf(t, record.None, now(), "f")); got.BaseOffset != 5 || got.LogStartOffset != 5 {
		t.Errorf("the next record: %+v", got)
	}
}
