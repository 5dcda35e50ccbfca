package broker_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// 15: what is stamped in place, and what needs a new CRC.
func TestTrap15Stamps(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "create", 1)
	createTopic(t, c, "append", 1, "message.timestamp.type", "LogAppendTime")
	for _, codec := range []record.Codec{record.None, record.LZ4} {
		sent := batchOf(t, codec, now(), "a", "b", "c")
		if got := put(t, c, "create", slices.Clone(sent)); got.ErrorCode != 0 || got.LogAppendTime != -1 {
			t.Fatalf("CreateTime: %+v", got)
		}
		first := get(t, c, "create", 0).RecordBatches
		last := record.Batch(first[len(first)-len(sent):])
		if !bytes.Equal(last[16:], sent[16:]) || last.CheckCRC() != nil {
			t.Errorf("%s: more than the offset and the epoch was changed", codec)
		}
		before := now()
		got := put(t, c, "append", slices.Clone(sent))
		if got.ErrorCode != 0 || got.LogAppendTime < before {
			t.Fatalf("LogAppendTime: %+v", got)
		}
		stored := get(t, c, "append", got.BaseOffset).RecordBatches
		b := record.Batch(stored)
		if b.BaseTimestamp() != sent.BaseTimestamp() || b.MaxTimestamp() != got.LogAppendTime || !b.LogAppendTime() || b.CheckCRC() != nil || !bytes.Equal(b[61:], sent[61:]) {
			t.Errorf("%s: base %d, max %d, %v", codec, b.BaseTimestamp(), b.MaxTimestamp(), b.CheckCRC())
		}
	}
}

// resealed changes bytes of a batch and makes its CRC right again.
func resealed(b record.Batch, change func(b record.Batch)) record.Batch {
	b = slices.Clone(b)
	change(b)
	b.SetMaxTimestamp(b.MaxTimestamp(), false) // which makes the CRC anew
	return b
}

// oldFormat makes of a batch something with a magic and attributes of before 0.11.
func oldFormat(b record.Batch, magic, attributes byte) []byte {
	b = slices.Clone(b)
	b[16], b[17] = magic, attributes
	return b
}

// 16: what is refused, and how.
func TestTrap16Validation(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "t", 1)
	createTopic(t, c, "compacted", 1, "cleanup.policy", "compact")
	createTopic(t, c, "small", 1, "max.message.bytes", "200")
	good := batchOf(t, record.None, now(), "a", "b")
	keyless := func() record.Batch {
		w := record.NewBuilder(record.None, 0)
		w.Append(record.Record{Timestamp: now(), Key: []byte("k"), Value: []byte("a")})
		w.Append(record.Record{Timestamp: now(), Value: []byte("b")})
		b, err := w.Batch()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}()
	put32 := func(at int, v uint32) func(record.Batch) {
		return func(b record.Batch) { binary.BigEndian.PutUint32(b[at:], v) }
	}
	for _, tc := range []struct {
		name  string
		topic string
		batch []byte
		want  *kerr.Error
		wrong int32 // the record to blame, or −1
	}{
		{"good", "t", good, nil, -1},
		{"magic 1", "t", oldFormat(good, 1, 0), kerr.InvalidRecord, -1},
		{"magic 0", "t", oldFormat(good, 0, 0), kerr.InvalidRecord, -1},
		{"magic 1 with zstd", "t", oldFormat(good, 1, 4), kerr.UnsupportedCompressionType, -1},
		{"two batches", "t", slices.Concat(good, good), kerr.InvalidRecord, -1},
		{"a batch, and not all of another", "t", slices.Concat(good, good[:30]), nil, -1},
		{"a batch and rubbish", "t", slices.Concat(good, make([]byte, 20)), kerr.CorruptMessage, -1},
		{"a batch and the begin of rubbish", "t", slices.Concat(good, make([]byte, 13)), kerr.CorruptMessage, -1},
		{"a size no batch has", "t", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3}, kerr.CorruptMessage, -1},
		{"no batch", "t", []byte{}, kerr.InvalidRecord, -1},
		{"half a batch", "t", good[:len(good)-1], kerr.InvalidRecord, -1},
		{"no records", "t", resealed(good, put32(57, 0)), kerr.InvalidRecord, -1},
		{"a record too many counted", "t", resealed(good, put32(57, 3)), kerr.InvalidRecord, -1},
		{"last offset delta", "t", resealed(good, put32(23, 5)), kerr.InvalidRecord, -1},
		{"negative delta", "t", resealed(good, put32(23, math.MaxUint32)), kerr.InvalidRecord, -1},
		{"control", "t", resealed(good, func(b record.Batch) { b[22] |= 0x20 }), kerr.InvalidRecord, -1},
		{"inner offsets", "t", resealed(good, func(b record.Batch) { b[61+3] = 2 }), kerr.InvalidRecord, 0},
		{"CRC", "t", func() []byte { b := slices.Clone(good); b[20] ^= 1; return b }(), kerr.CorruptMessage, -1},
		{"no key in a compacted topic", "compacted", keyless, kerr.InvalidRecord, 1},
		{"larger than the topic allows", "small", batchOf(t, record.None, now(), string(make([]byte, 300))), kerr.MessageTooLarge, -1},
		{"tomorrow", "t", batchOf(t, record.None, now()+24*3600_000, "x"), kerr.InvalidTimestamp, -1},
	} {
		got := put(t, c, tc.topic, slices.Clone(tc.batch))
		want := int16(0)
		if tc.want != nil {
			want = tc.want.Code
		}
		if got.ErrorCode != want {
			t.Errorf("%s: code %d %s, want %d", tc.name, got.ErrorCode, deref(got.ErrorMessage), want)
			continue
		}
		wrong := int32(-1)
		if len(got.ErrorRecords) == 1 {
			wrong = got.ErrorRecords[0].RelativeOffset
		}
		if wrong != tc.wrong {
			t.Errorf("%s: record %d is to blame, want %d", tc.name, wrong, tc.wrong)
		}
		if tc.want != nil && (got.BaseOffset != -1 || got.ErrorMessage == nil) {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
	if end := listed(t, c, "t", -1); end.Offset != 4 {
		t.Errorf("%d records are stored, want 4", end.Offset)
	}
}

// 17: the leader epoch of what is sent means nothing; the base offset has to be 0
// (Apache Kafka 4.4, UnifiedLog: "the base offset … should be 0").
func TestTrap17OffsetsAreOverwritten(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "t", 1)
	for i, epoch := range []int32{-1, 0, 77, math.MaxInt32} {
		b := batchOf(t, record.None, now(), "x")
		binary.BigEndian.PutUint32(b[12:], uint32(epoch))
		if got := put(t, c, "t", b); got.ErrorCode != 0 || got.BaseOffset != int64(i) {
			t.Errorf("epoch %d: code %d at %d", epoch, got.ErrorCode, got.BaseOffset)
		}
	}
	for _, base := range []int64{1, -1, math.MaxInt64} {
		b := batchOf(t, record.None, now(), "x")
		binary.BigEndian.PutUint64(b, uint64(base))
		if got := put(t, c, "t", b); got.ErrorCode != kerr.InvalidRecord.Code || got.LogStartOffset != 0 {
			t.Errorf("base offset %d: %+v", base, got)
		}
	}
	want := listed(t, c, "t", -1).LeaderEpoch
	rest := get(t, c, "t", 0).RecordBatches
	for i := 0; len(rest) > 0; i++ {
		b, more, err := record.Split(rest)
		if err != nil || int(b.BaseOffset()) != i || int32(b.Epoch()) != want {
			t.Fatalf("batch %d: at %d in epoch %d, %v", i, b.BaseOffset(), b.Epoch(), err)
		}
		rest = more
	}
}

// 18: acks other than −1, 0 and 1; what replicas have to do with it is in
// TestCodesOfReplication.
func TestTrap18Acks(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	createTopic(t, c, "t", 1)
	for acks, want := range map[int16]int16{-1: 0, 1: 0, 2: kerr.InvalidRequiredAcks.Code, -2: kerr.InvalidRequiredAcks.Code, math.MaxInt16: kerr.InvalidRequiredAcks.Code} {
		r := produceTo("t", 0, acks, batchOf(t, record.None, now(), "x"))
		absent := produceTo("absent", 0, acks, batchOf(t, record.None, now(), "x"))
		r.Topics = append(r.Topics, absent.Topics...)
		m := askAt[*kmsg.ProduceResponse](t, c, 9, r)
		if got := m.Topics[0].Partitions[0].ErrorCode; got != want {
			t.Errorf("acks %d: code %d, want %d", acks, got, want)
		}
		if got := m.Topics[1].Partitions[0].ErrorCode; got != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("acks %d to a topic that isn't there: code %d", acks, got)
		}
	}
	if end := listed(t, c, "t", -1); end.Offset != 2 {
		t.Errorf("end %d", end.Offset)
	}
}

// producing sends batches of one idempotent producer.
type producing struct {
	t     *testing.T
	id    int64
	topic string
}

func newProducing(t *testing.T, c *wire.Conn, topic string) *producing {
	t.Helper()
	got := ask[*kmsg.InitProducerIDResponse](t, c, kmsg.NewPtrInitProducerIDRequest())
	if got.ErrorCode != 0 || got.ProducerEpoch != 0 {
		t.Fatalf("init producer id: %+v", got)
	}
	return &producing{t: t, id: got.ProducerID, topic: topic}
}

func (p *producing) batch(epoch int16, seq int32, n int) record.Batch {
	p.t.Helper()
	w := record.NewBuilder(record.None, 0)
	w.Producer(p.id, epoch, seq)
	for range n {
		w.Append(record.Record{Timestamp: now(), Value: []byte("v")})
	}
	b, err := w.Batch()
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// send appends n records from a sequence on and checks code and offset.
func (p *producing) send(c *wire.Conn, what string, epoch int16, seq int32, n int, code *kerr.Error, base int64) {
	p.t.Helper()
	got := put(p.t, c, p.topic, p.batch(epoch, seq, n))
	want := int16(0)
	if code != nil {
		want, base = code.Code, -1
	}
	if got.ErrorCode != want || got.BaseOffset != base {
		p.t.Errorf("%s: code %d at %d, want %d at %d", what, got.ErrorCode, got.BaseOffset, want, base)
	}
}

// 19 to 21: what an idempotent producer may send again, and what not.
func TestTraps19To21Idempotence(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	createTopic(t, c, "window", 1)
	p := newProducing(t, c, "window")
	for i := range int32(7) {
		p.send(c, "in order", 0, 2*i, 2, nil, int64(2*i))
	}
	for i := int32(2); i < 7; i++ {
		p.send(c, "19 one of the last five again", 0, 2*i, 2, nil, int64(2*i))
	}
	p.send(c, "19 older than the last five", 0, 2, 2, kerr.OutOfOrderSequenceNumber, 0)
	p.send(c, "19 half a batch again", 0, 12, 1, kerr.OutOfOrderSequenceNumber, 0)
	p.send(c, "19 a gap", 0, 20, 1, kerr.OutOfOrderSequenceNumber, 0)
	if end := listed(t, c, "window", -1); end.Offset != 14 {
		t.Errorf("19: %d records, want 14", end.Offset)
	}

	createTopic(t, c, "first", 1)
	p = newProducing(t, c, "first")
	p.send(c, "20 not from 0 where nothing ever was", 0, 3, 1, kerr.OutOfOrderSequenceNumber, 0)
	if got := put(t, c, "first", batchOf(t, record.None, now(), "x")); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	p.send(c, "20 unknown producer, any sequence", 0, 3, 1, nil, 1)
	deleteTo(t, c, "first", -1)
	newProducing(t, c, "first").send(c, "20 where something was, and is deleted", 0, 9, 1, nil, 2)

	p.send(c, "21 next epoch, not from 0", 1, 4, 1, kerr.OutOfOrderSequenceNumber, 0)
	p.send(c, "21 next epoch", 1, 0, 1, nil, 3)
	p.send(c, "21 old epoch", 0, 4, 1, kerr.InvalidProducerEpoch, 0)
	wraps := newProducing(t, c, "first")
	wraps.send(c, "21 up to the last sequence", 0, math.MaxInt32-1, 2, nil, 4)
	wraps.send(c, "21 0 comes after it", 0, 0, 3, nil, 6)
	over := newProducing(t, c, "first")
	over.send(c, "21 over the end in one batch", 0, math.MaxInt32-1, 5, nil, 9)
	over.send(c, "21 the same again", 0, math.MaxInt32-1, 5, nil, 9)
	over.send(c, "21 and on from there", 0, 3, 1, nil, 14)
}

// A producer tells its id and its epoch, or neither (KIP-360).
func TestHalfAProducerIsRefused(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	empty := ""
	for _, tc := range []struct {
		name  string
		txn   *string
		id    int64
		epoch int16
		want  int16
	}{
		{"neither", nil, -1, -1, 0},
		{"both", nil, 5, 3, 0},
		{"an id", nil, 5, -1, kerr.InvalidRequest.Code},
		{"an epoch", nil, -1, 3, kerr.InvalidRequest.Code},
		{"an empty transactional id", &empty, -1, -1, kerr.InvalidRequest.Code},
	} {
		for version := range int16(6) {
			r := kmsg.NewPtrInitProducerIDRequest()
			r.TransactionalID, r.ProducerID, r.ProducerEpoch = tc.txn, tc.id, tc.epoch
			want := tc.want
			if version < 3 && tc.txn == nil {
				want = 0 // those fields came with version 3
			}
			got := askAt[*kmsg.InitProducerIDResponse](t, c, version, r)
			if got.ErrorCode != want || (got.ProducerID >= 0) != (want == 0) || (got.ProducerEpoch == 0) != (want == 0) {
				t.Errorf("%s, version %d: %+v", tc.name, version, got)
			}
		}
	}
}

// 22: producers are known over deletions (KAFKA-7190) and restarts, and for a day
// after their last batch.
func TestTrap22ProducersAreRemembered(t *testing.T) {
	dir := t.TempDir()
	in := func(c *broker.Config) { c.Dir = dir }
	b := brokertest.Start(t, in)
	c := wireClient(t, b)
	createTopic(t, c, "kept", 1, "segment.bytes", "1000")
	p := newProducing(t, c, "kept")
	for i := range int32(40) { // several segments
		p.send(c, "at first", 0, i, 1, nil, int64(i))
	}
	if got := deleteTo(t, c, "kept", -1); got.LowWatermark != 40 {
		t.Fatalf("delete records: %+v", got)
	}
	p.send(c, "again, after all was deleted", 0, 39, 1, nil, 39)
	brokertest.Stop(t, b)
	b = brokertest.Start(t, in)
	c = wireClient(t, b)
	p.send(c, "again, after a restart", 0, 38, 1, nil, 38)
	p.send(c, "a gap, after a restart", 0, 41, 1, kerr.OutOfOrderSequenceNumber, 0)
	p.send(c, "next, after a restart", 0, 40, 1, nil, 40)
	if id := newProducing(t, c, "kept").id; id <= p.id {
		t.Errorf("producer id %d after %d: given twice", id, p.id)
	}
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		createTopic(t, c, "t", 1)
		p := newProducing(t, c, "t")
		p.send(c, "first", 0, 0, 1, nil, 0)
		time.Sleep(23 * time.Hour)
		c = dial() // the first one was idle for too long
		p.send(c, "again, within a day", 0, 0, 1, nil, 0)
		p.send(c, "a gap, within a day", 0, 7, 1, kerr.OutOfOrderSequenceNumber, 0)
		time.Sleep(25 * time.Hour)
		c = dial()
		p.send(c, "forgotten after a day", 0, 7, 1, nil, 1)
	})
}

// 23: batches of one connection are appended in the order they were sent, though
// nobody waits for the answers.
func TestTrap23InFlight(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	createTopic(t, c, "t", 1)
	p := newProducing(t, c, "t")
	conn, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // nothing is written last
	const n = 200
	var frames []byte
	format := kmsg.NewRequestFormatter()
	for i := range int32(n) {
		r := produceTo("t", 0, -1, p.batch(0, i, 1))
		r.Version = 9
		frames = append(frames, format.AppendRequest(nil, r, i)...)
	}
	go func() { _, _ = conn.Write(frames) }() // the reader sees it when it fails
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for i := range uint32(n) {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:])-5)
		if _, err := io.ReadFull(conn, body); err != nil {
			t.Fatal(err)
		}
		m := kmsg.NewPtrProduceResponse()
		m.Version = 9
		if err := m.ReadFrom(body); err != nil {
			t.Fatal(err)
		}
		if got := m.Topics[0].Partitions[0]; binary.BigEndian.Uint32(head[4:]) != i || got.ErrorCode != 0 || got.BaseOffset != int64(i) {
			t.Fatalf("answer %d: correlation %d, code %d at %d", i, binary.BigEndian.Uint32(head[4:]), got.ErrorCode, got.BaseOffset)
		}
	}
}
