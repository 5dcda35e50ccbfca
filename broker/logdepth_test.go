package broker_test

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// TestLogAppendTimeRules: lookups by time, the greatest time, retention and
// duplicates all go by the broker's time where it is the topic's.
func TestLogAppendTimeRules(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		createTopic(t, c, "lat", 1, "message.timestamp.type", "LogAppendTime", "retention.ms", "3600000",
			"message.timestamp.before.max.ms", "1", "message.timestamp.after.max.ms", "1")
		var times []int64
		for i, own := range []int64{5, now() + 1<<40, -1, 1_500_000_000_000} { // nobody judges them here
			b := record.NewBuilder(record.Codec(i), 0)
			b.Producer(77, 0, int32(2*i))
			for _, d := range []int64{9, 0} {
				b.Append(record.Record{Timestamp: own + d, Value: []byte("v")})
			}
			batch, err := b.Batch()
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second is a duplicate, a second later
				got := put(t, c, "lat", append([]byte(nil), batch...))
				if got.ErrorCode != 0 || got.BaseOffset != int64(2*i) {
					t.Fatalf("batch %d: %+v", i, got)
				}
				if len(times) == i {
					times = append(times, got.LogAppendTime)
				}
				if got.LogAppendTime != times[i] {
					t.Fatalf("batch %d: answered time %d, first %d", i, got.LogAppendTime, times[i])
				}
				time.Sleep(time.Second)
			}
			stored := record.Batch(get(t, c, "lat", int64(2*i)).RecordBatches)
			if !stored.LogAppendTime() || stored.MaxTimestamp() != times[i] || stored.BaseTimestamp() != own+9 || stored.CheckCRC() != nil {
				t.Fatalf("batch %d: base %d, max %d, CRC %v", i, stored.BaseTimestamp(), stored.MaxTimestamp(), stored.CheckCRC())
			}
		}
		for i, at := range times {
			if got := listed(t, c, "lat", at); got.Offset != int64(2*i) || got.Timestamp != at {
				t.Errorf("time of batch %d: %+v", i, got)
			}
			if got := listed(t, c, "lat", at+1); i < 3 && (got.Offset != int64(2*i+2) || got.Timestamp != times[i+1]) || i == 3 && got.Offset != -1 {
				t.Errorf("after batch %d: %+v", i, got)
			}
		}
		if got := listed(t, c, "lat", -3); got.Offset != 6 || got.Timestamp != times[3] {
			t.Errorf("greatest time: %+v", got)
		}
		for range 59 { // an idle connection is closed
			time.Sleep(time.Minute)
			listed(t, c, "lat", -1)
		}
		synctest.Wait()
		if got := listed(t, c, "lat", -2); got.Offset != 0 {
			t.Errorf("starts at %d before its hour is over", got.Offset)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := listed(t, c, "lat", -2); got.Offset != 8 {
			t.Errorf("starts at %d after its hour", got.Offset)
		}
	})
}

// TestRecodedBatchIsJudged: what the broker makes of a batch must fit the topic
// as well, and what no codec should read never gets there.
func TestRecodedBatchIsJudged(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "plain", 1, "compression.type", "uncompressed", "max.message.bytes", "10000")
	long := strings.Repeat("a", 20_000)
	if got := put(t, c, "plain", batchOf(t, record.Zstd, now(), long)); got.ErrorCode != kerr.MessageTooLarge.Code {
		t.Errorf("20,000 bytes in a small batch: code %d %s", got.ErrorCode, deref(got.ErrorMessage))
	}
	if got := put(t, c, "plain", batchOf(t, record.Zstd, now(), long[:9_000])); got.ErrorCode != 0 {
		t.Errorf("9,000 bytes: code %d %s", got.ErrorCode, deref(got.ErrorMessage))
	}
	createTopic(t, c, "packed", 1, "compression.type", "gzip", "max.message.bytes", "100000")
	twice := record.NewBuilder(record.None, 0)
	inner := batchOf(t, record.Gzip, now(), long)
	twice.Append(record.Record{Timestamp: now(), Value: inner})
	outer, err := twice.Batch()
	if err != nil {
		t.Fatal(err)
	}
	if got := put(t, c, "packed", outer); got.ErrorCode != 0 {
		t.Errorf("a batch as a value: code %d %s", got.ErrorCode, deref(got.ErrorMessage))
	}
	// gzip in gzip, as a client once sent on its retries.
	again, err := record.Gzip.Compress(append([]byte(nil), inner[:record.HeaderSize]...), inner[record.HeaderSize:], 0)
	if err != nil {
		t.Fatal(err)
	}
	nested := record.Batch(again)
	binary.BigEndian.PutUint32(nested[8:], uint32(len(nested)-12))
	nested.SetMaxTimestamp(nested.MaxTimestamp(), false) // and the CRC
	for _, topic := range []string{"packed", "plain"} {
		if got := put(t, c, topic, append([]byte(nil), nested...)); got.ErrorCode != kerr.InvalidRecord.Code && got.ErrorCode != kerr.CorruptMessage.Code {
			t.Errorf("%s: nested compression: code %d %s", topic, got.ErrorCode, deref(got.ErrorMessage))
		}
	}
}

// TestDamagedBatchIsSteppedOver: exactly the damaged batch answers
// CORRUPT_MESSAGE, and a consumer that goes on behind it reads the rest.
func TestDamagedBatchIsSteppedOver(t *testing.T) {
	onDisk(t, func(t *testing.T, disk *vfs.Mem, b *broker.Broker, c *wire.Conn) {
		createTopic(t, c, "d", 1)
		var ends []int64
		for i := range 8 {
			values := make([]string, i+1)
			got := put(t, c, "d", batchOf(t, record.None, now(), values...))
			if got.ErrorCode != 0 {
				t.Fatal(got.ErrorCode)
			}
			ends = append(ends, got.BaseOffset+int64(len(values)))
		}
		const path = "/data/d-0/00000000000000000000.log"
		f, err := disk.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		raw := record.Batch(get(t, c, "d", ends[2]).RecordBatches)
		all, err := vfs.ReadFile(disk, path)
		if err != nil {
			t.Fatal(err)
		}
		pos := int64(strings.Index(string(all), string(raw[:100])))
		if _, err := f.WriteAt([]byte{0x7f}, pos+8); err != nil { // its length
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		// Before it everything is read; in it nothing; behind it everything.
		if got := get(t, c, "d", ends[1]); got.ErrorCode != 0 || record.Batch(got.RecordBatches).BaseOffset() != offsets.Offset(ends[1]) {
			t.Errorf("before: code %d", got.ErrorCode)
		}
		for at := ends[2]; at < ends[3]; at++ {
			if got := get(t, c, "d", at); got.ErrorCode != kerr.CorruptMessage.Code {
				t.Errorf("at %d: code %d", at, got.ErrorCode)
			}
		}
		if got := get(t, c, "d", ends[3]); got.ErrorCode != 0 || len(got.RecordBatches) == 0 || record.Batch(got.RecordBatches).BaseOffset() != offsets.Offset(ends[3]) {
			t.Errorf("behind: code %d, %d bytes", got.ErrorCode, len(got.RecordBatches))
		}
		if got := listed(t, c, "d", -1); got.Offset != ends[7] {
			t.Errorf("the log ends at %d, want %d", got.Offset, ends[7])
		}
	})
}
