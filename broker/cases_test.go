package broker_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
)

// The cases here are problems that people reported in public for systems of
// this kind.

// IBM/sarama#2053: a batch without records makes consumers read it for ever.
func TestEmptyBatchIsRefused(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "d1", 1)
	for _, name := range []string{"empty-v2-count0", "control-v2-count0"} {
		got := put(t, c, "d1", readData(t, "kafka-vectors/sarama/"+name+".recordset.bin"))
		if got.ErrorCode != kerr.InvalidRecord.Code {
			t.Errorf("%s: code %d %s", name, got.ErrorCode, deref(got.ErrorMessage))
		}
	}
	if got := put(t, c, "d1", nil); got.ErrorCode != kerr.InvalidRecord.Code {
		t.Errorf("null records: code %d", got.ErrorCode)
	}
	if end := listed(t, c, "d1", -1); end.Offset != 0 {
		t.Errorf("%d records were stored", end.Offset)
	}
}

// The same batch in a log, where compaction may leave one: readers get it, and
// what comes after it.
func TestEmptyBatchInALogIsPassed(t *testing.T) {
	dir := t.TempDir()
	in := func(c *broker.Config) { c.Dir = dir }
	b := brokertest.Start(t, in)
	c := wireClient(t, b)
	createTopic(t, c, "d1", 1, "retention.ms", "-1")
	if got := put(t, c, "d1", batchOf(t, record.None, now(), "before")); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	brokertest.Stop(t, b)
	empty := record.Batch(readData(t, "kafka-vectors/sarama/empty-v2-count0.recordset.bin"))
	binary.BigEndian.PutUint64(empty, 1) // its offset; the CRC doesn't cover it
	f, err := os.OpenFile(filepath.Join(dir, "d1-0", "00000000000000000000.log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(empty); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b = brokertest.Start(t, in)
	c = wireClient(t, b)
	if got := put(t, c, "d1", batchOf(t, record.None, now(), "after")); got.ErrorCode != 0 || got.BaseOffset != 2 {
		t.Fatalf("the next record: %+v", got)
	}
	if got := recordsOf(t, get(t, c, "d1", 0).RecordBatches); strings.Count(got, "\n") != 2 {
		t.Errorf("read from the start:\n%s", got)
	}
	if got := recordsOf(t, get(t, c, "d1", 1).RecordBatches); strings.Count(got, "\n") != 1 {
		t.Errorf("read from the empty batch on:\n%s", got)
	}
	got := consume(t, b, "d1", 2)
	if string(got[0].Value) != "before" || string(got[1].Value) != "after" || got[1].Offset != 2 {
		t.Errorf("consumed %v", got)
	}
}

// kafka-python#718: a wrapper of before 0.11 that was compressed twice.
func TestNestedCompressionIsRefused(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "d8", 1)
	message := func(attributes byte, value []byte) []byte {
		body := append([]byte{1, attributes}, make([]byte, 8)...) // magic 1, a time
		body = append(body, 255, 255, 255, 255)                   // no key
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(value))), value...)
		set := binary.BigEndian.AppendUint32(make([]byte, 8), uint32(len(body)+4))
		return append(binary.BigEndian.AppendUint32(set, crc32.ChecksumIEEE(body)), body...)
	}
	zipped := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	inner := message(1, zipped(message(0, []byte("value"))))
	if got := put(t, c, "d8", message(1, zipped(inner))); got.ErrorCode != kerr.InvalidRecord.Code {
		t.Errorf("code %d %s", got.ErrorCode, deref(got.ErrorMessage))
	}
	// In a batch of today the records are compressed once, or aren't records.
	body := batchOf(t, record.Gzip, now(), "value")[61:]
	twice := slices.Concat(batchOf(t, record.Gzip, now(), "value")[:61], zipped(body))
	binary.BigEndian.PutUint32(twice[8:], uint32(len(twice)-12))
	if got := put(t, c, "d8", resealed(twice, func(record.Batch) {})); got.ErrorCode != kerr.InvalidRecord.Code {
		t.Errorf("twice in a batch: code %d %s", got.ErrorCode, deref(got.ErrorMessage))
	}
	if end := listed(t, c, "d8", -1); end.Offset != 0 {
		t.Errorf("%d records were stored", end.Offset)
	}
}

// redpanda#22824: an OffsetCommit of no topics.
func TestEmptyOffsetCommit(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	if got := ask[*kmsg.FindCoordinatorResponse](t, c, find).Coordinators[0]; got.ErrorCode != 0 {
		t.Fatalf("find coordinator: code %d", got.ErrorCode)
	}
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group = "g"
	r.Topics = []kmsg.OffsetCommitRequestTopic{}
	if got := askAt[*kmsg.OffsetCommitResponse](t, c, 8, r); len(got.Topics) != 0 {
		t.Errorf("answer %+v", got)
	}
}

// redpanda#27529: a batch whose greatest time isn't set.
func TestMaxTimestampIsCorrected(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "d3", 1, "retention.ms", "-1")
	if got := put(t, c, "d3", readData(t, "kafka-vectors/sarama/v2-none.recordset.bin")); got.ErrorCode != 0 {
		t.Fatalf("code %d %s", got.ErrorCode, deref(got.ErrorMessage))
	}
	if got := listed(t, c, "d3", 1479847795001); got.Offset != 0 || got.ErrorCode != 0 {
		t.Errorf("offset of the time: %+v", got)
	}
	stored, _, err := record.Split(get(t, c, "d3", 0).RecordBatches)
	if err != nil || stored.MaxTimestamp() != 1479847795005 || stored.CheckCRC() != nil {
		t.Errorf("stored max timestamp %d, %v, %v", stored.MaxTimestamp(), err, stored.CheckCRC())
	}
}

// vertx-kafka-client#313 and others: null header values, headers of one name,
// records of nothing but headers; kept byte for byte.
func TestCapturedBatchesAreKeptByteForByte(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	names, err := filepath.Glob(realData(t, "kafka-vectors/client-captured") + "/*.recordset.bin")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		base := strings.TrimSuffix(filepath.Base(name), ".recordset.bin")
		t.Run(base, func(t *testing.T) {
			sent := readData(t, "kafka-vectors/client-captured/"+filepath.Base(name))
			topic := "d5-" + base
			createTopic(t, c, topic, 1, "retention.ms", "-1")
			got := put(t, c, topic, bytes.Clone(sent))
			if strings.Contains(base, ".txn.") {
				if got.ErrorCode != kerr.TransactionalIDAuthorizationFailed.Code {
					t.Errorf("a transaction's batch: code %d", got.ErrorCode)
				}
				return
			}
			if got.ErrorCode != 0 {
				t.Fatalf("code %d %s", got.ErrorCode, deref(got.ErrorMessage))
			}
			stored := get(t, c, topic, 0).RecordBatches
			if len(stored) != len(sent) || !bytes.Equal(stored[16:], sent[16:]) {
				t.Error("the batch was changed")
			}
			if record.Batch(stored).BaseOffset() != 0 || record.Batch(stored).Epoch() < 0 {
				t.Errorf("stamped with offset %d, epoch %d", record.Batch(stored).BaseOffset(), record.Batch(stored).Epoch())
			}
		})
	}
}

// pykafka#102 and others: a record larger than the fetch size.
func TestLargeRecordIsReturnedWhole(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "d6", 1)
	big := batchOf(t, record.None, now(), strings.Repeat("x", 126<<10))
	for range 2 {
		if got := put(t, c, "d6", bytes.Clone(big)); got.ErrorCode != 0 {
			t.Fatalf("code %d", got.ErrorCode)
		}
	}
	for version := int16(4); version <= 12; version++ {
		r := fetchFrom("d6", 0, 0)
		r.MaxBytes, r.Topics[0].Partitions[0].PartitionMaxBytes = 1, 1
		m := askAt[*kmsg.FetchResponse](t, c, version, r)
		if got := m.Topics[0].Partitions[0].RecordBatches; len(got) != len(big) {
			t.Errorf("version %d: %d bytes, want one batch of %d", version, len(got), len(big))
		}
	}
	huge := batchOf(t, record.None, now(), strings.Repeat("x", 20<<20))
	if got := put(t, c, "d6", huge); got.ErrorCode != kerr.MessageTooLarge.Code {
		t.Errorf("20 MiB: code %d", got.ErrorCode)
	}
	if end := listed(t, c, "d6", -1); end.Offset != 2 { // on the same connection
		t.Errorf("end %d", end.Offset)
	}
}

// confluent-kafka-python#835: LogAppendTime that still shows the producer's.
func TestLogAppendTime(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "d11", 1, "message.timestamp.type", "LogAppendTime")
	before := now()
	got := put(t, c, "d11", batchOf(t, record.Gzip, 2, "a", "b", "c"))
	after := now()
	if got.ErrorCode != 0 || got.LogAppendTime < before || got.LogAppendTime > after {
		t.Errorf("answer %+v, between %d and %d", got, before, after)
	}
	stored := record.Batch(get(t, c, "d11", 0).RecordBatches)
	if !stored.LogAppendTime() || stored.MaxTimestamp() != got.LogAppendTime || stored.CheckCRC() != nil {
		t.Errorf("attributes %x, max timestamp %d, CRC %v", stored.Attributes(), stored.MaxTimestamp(), stored.CheckCRC())
	}
	createTopic(t, c, "create-time", 1)
	if got := put(t, c, "create-time", batchOf(t, record.None, before, "a")); got.LogAppendTime != -1 {
		t.Errorf("CreateTime topic answers time %d", got.LogAppendTime)
	}
}

// KAFKA-3088: null and empty client ids, and frames that are none.
func TestOddFrames(t *testing.T) {
	b := brokertest.Start(t, nil)
	good := wireClient(t, b)
	body := kmsg.NewPtrMetadataRequest()
	body.Version = 1
	cases := []struct {
		name  string
		frame []byte
		reply bool
	}{
		{"null client id", frame(3, 1, []byte{255, 255}, body.AppendTo(nil)), true},
		{"empty client id", frame(3, 1, []byte{0, 0}, body.AppendTo(nil)), true},
		{"unknown key 999", frame(999, 0, []byte{0, 0}, nil), false},
		{"version 99", frame(3, 99, []byte{0, 0}, nil), false},
		{"produce version 2", frame(0, 2, []byte{0, 0}, nil), false},
		{"size 0", []byte{0, 0, 0, 0}, false},
		{"size 2^31-1", []byte{127, 255, 255, 255, 0, 3}, false},
		{"body cut off", frame(3, 1, []byte{0, 0}, []byte{0, 0, 0, 9}), false},
		{"array of 2^31-1", frame(3, 1, []byte{0, 0}, []byte{127, 255, 255, 255}), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", b.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }() // it may be closed already
			if _, err := conn.Write(c.frame); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			var size [4]byte
			_, err = io.ReadFull(conn, size[:])
			var timeout net.Error
			switch {
			case errors.As(err, &timeout) && timeout.Timeout():
				t.Error("neither answered nor closed")
			case (err == nil) != c.reply:
				t.Errorf("read: %v", err)
			}
			listed(t, good, "nobody", -1)
		})
	}
	// ApiVersions above ours is answered, in the oldest form.
	conn, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it may be closed already
	if _, err := conn.Write(frame(18, 99, []byte{255, 255, 0}, []byte("what nobody can read"))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4+4+2+4+6)
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	want := []byte{0, 0, 0, 16, 0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5}
	if !bytes.Equal(got, want) {
		t.Errorf("ApiVersions 99:\n got %v\nwant %v", got, want)
	}
}

// frame builds a request with correlation id 7.
func frame(key, version int16, clientID, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(clientID)+len(body)))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 7)
	return append(append(b, clientID...), body...)
}

// redpanda#3159: a committed read of an empty partition, and of a trimmed one.
func TestCommittedReadOfNothing(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "d14", 1)
	read := func(at int64) kmsg.FetchResponseTopicPartition {
		r := fetchFrom("d14", 0, at)
		r.IsolationLevel = 1
		return askAt[*kmsg.FetchResponse](t, c, 12, r).Topics[0].Partitions[0]
	}
	for _, at := range []int64{0, 3} {
		got := read(at)
		if got.ErrorCode != 0 || got.RecordBatches == nil || len(got.RecordBatches) != 0 || got.HighWatermark != at || got.LastStableOffset != at || got.LogStartOffset != at {
			t.Errorf("at %d: %+v", at, got)
		}
		if got.AbortedTransactions == nil {
			t.Errorf("at %d: the list of aborted transactions is null", at)
		}
		if at == 3 {
			break
		}
		if got := put(t, c, "d14", batchOf(t, record.None, now(), "a", "b", "c")); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
		if got := deleteTo(t, c, "d14", -1); got.ErrorCode != 0 || got.LowWatermark != 3 {
			t.Fatalf("delete records: %+v", got)
		}
	}
}

// redpanda#6631: one flipped bit.
func TestFlippedBitIsNoticed(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "d15", 1)
	names, err := filepath.Glob(realData(t, "kafka-vectors/client-captured") + "/*.recordset.bin")
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(15, 15))
	for _, name := range names {
		sent := readData(t, "kafka-vectors/client-captured/"+filepath.Base(name))
		for range 20 {
			bad := bytes.Clone(sent)
			at := 17 + rnd.IntN(len(bad)-17) // from the CRC on
			bad[at] ^= 1 << rnd.IntN(8)
			if got := put(t, c, "d15", bad); got.ErrorCode != kerr.CorruptMessage.Code {
				t.Errorf("%s, byte %d: code %d %s", filepath.Base(name), at, got.ErrorCode, deref(got.ErrorMessage))
			}
		}
		// In the length the batch no longer fits its set.
		bad := bytes.Clone(sent)
		bad[11] ^= 1 << rnd.IntN(3)
		if got := put(t, c, "d15", bad); got.ErrorCode != kerr.CorruptMessage.Code && got.ErrorCode != kerr.InvalidRecord.Code {
			t.Errorf("%s, length: code %d", filepath.Base(name), got.ErrorCode)
		}
		bad = bytes.Clone(sent)
		bad[16] = 1
		old := kerr.InvalidRecord.Code
		if bad[17]&7 == byte(record.Zstd) { // where the old format has its codec
			old = kerr.UnsupportedCompressionType.Code
		}
		if got := put(t, c, "d15", bad); got.ErrorCode != old {
			t.Errorf("%s, magic: code %d", filepath.Base(name), got.ErrorCode)
		}
	}
	if end := listed(t, c, "d15", -1); end.Offset != 0 {
		t.Errorf("%d records were stored", end.Offset)
	}
}

// A batch that expands beyond all measure would kill every reader after it.
func TestDecompressionBombIsRefused(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "bomb", 1)
	for _, codec := range []record.Codec{record.Gzip, record.Zstd} {
		bomb := batchOf(t, codec, now(), strings.Repeat("\x00", 80<<20))
		if len(bomb) > 1<<20 {
			t.Fatalf("%s: the bomb has %d bytes", codec, len(bomb))
		}
		if got := put(t, c, "bomb", bomb); got.ErrorCode != kerr.CorruptMessage.Code {
			t.Errorf("%s: code %d %s", codec, got.ErrorCode, deref(got.ErrorMessage))
		}
	}
	if end := listed(t, c, "bomb", -1); end.Offset != 0 {
		t.Errorf("%d records were stored", end.Offset)
	}
}
