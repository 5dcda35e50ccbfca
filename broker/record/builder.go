package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"sawlog/offsets"
)

// Builder makes batches. Offsets count up from 0: the log stamps the real ones.
type Builder struct {
	codec  Codec
	level  int
	body   []byte
	count  int
	base   int64 // timestamp of the first record
	latest int64
	attrs  byte
	id     int64
	epoch  int16
	seq    int32
}

// NewBuilder returns a builder of batches of one codec.
func NewBuilder(codec Codec, level int) *Builder {
	w := &Builder{codec: codec, level: level}
	w.Producer(NoProducer, -1, NoSequence)
	return w
}

// Producer sets producer id, epoch and base sequence of the next batch.
func (w *Builder) Producer(id int64, epoch int16, seq int32) {
	w.id, w.epoch, w.seq = id, epoch, seq
}

// Transactional makes the next batches part of their producer's transaction.
func (w *Builder) Transactional(on bool) {
	w.attrs &^= attrTransactional
	if on {
		w.attrs |= attrTransactional
	}
}

// Append adds a record; its offset is not looked at.
func (w *Builder) Append(r Record) {
	if w.count == 0 {
		w.base, w.latest = r.Timestamp, r.Timestamp
	}
	w.latest = max(w.latest, r.Timestamp)
	w.body = appendRecord(w.body, r.Timestamp-w.base, w.count, &r)
	w.count++
}

// Len is the size of the batch so far, before compression.
func (w *Builder) Len() int { return HeaderSize + len(w.body) }

// Count is the number of records so far.
func (w *Builder) Count() int { return w.count }

// Batch closes the batch and returns it in memory of its own. The builder goes
// on only after Reset.
func (w *Builder) Batch() (Batch, error) {
	if w.count == 0 {
		return nil, fmt.Errorf("%w: no records", ErrInvalid)
	}
	b := make(Batch, HeaderSize, HeaderSize+len(w.body)+16)
	full, err := w.codec.Compress(b, w.body, w.level)
	if err != nil {
		return nil, err
	}
	if len(full) > math.MaxInt32 {
		return nil, fmt.Errorf("%w: batch of %d bytes", ErrInvalid, len(full))
	}
	b = full
	b.fill(w.attrs|byte(w.codec), int32(w.count-1), w.base, w.latest, int32(w.count))
	binary.BigEndian.PutUint64(b[posProducerID:], uint64(w.id))
	binary.BigEndian.PutUint16(b[posProducerEpoch:], uint16(w.epoch))
	binary.BigEndian.PutUint32(b[posBaseSequence:], uint32(w.seq))
	b.seal()
	return b, nil
}

// Reset forgets the records, not the producer.
func (w *Builder) Reset() {
	w.body = w.body[:0]
	w.count = 0
}

// fill sets the fields that depend on the records.
func (b Batch) fill(attrs byte, lastDelta int32, base, latest int64, count int32) {
	b.Stamp(0, offsets.NoEpoch)
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-lengthOverhead))
	b[posMagic] = magicV2
	b[posAttributes], b[posAttributes+1] = 0, attrs
	binary.BigEndian.PutUint32(b[posLastOffsetDelta:], uint32(lastDelta))
	binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(base))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(latest))
	binary.BigEndian.PutUint32(b[posCount:], uint32(count))
}

func appendRecord(b []byte, timestampDelta int64, offsetDelta int, r *Record) []byte {
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) +
		bytesSize(r.Key) + bytesSize(r.Value) + varintSize(int64(len(r.Headers)))
	for i := range r.Headers {
		size += varintSize(int64(len(r.Headers[i].Key))) + len(r.Headers[i].Key) + bytesSize(r.Headers[i].Value)
	}
	b = appendVarint(b, int64(size))
	b = append(b, 0)
	b = appendVarint(b, timestampDelta)
	b = appendVarint(b, int64(offsetDelta))
	b = appendBytes(b, r.Key)
	b = appendBytes(b, r.Value)
	b = appendVarint(b, int64(len(r.Headers)))
	for i := range r.Headers {
		b = appendVarint(b, int64(len(r.Headers[i].Key)))
		b = append(b, r.Headers[i].Key...)
		b = appendBytes(b, r.Headers[i].Value)
	}
	return b
}

// appendBytes writes a length and bytes; nil is null.
func appendBytes(b, p []byte) []byte {
	if p == nil {
		return appendVarint(b, -1)
	}
	return append(appendVarint(b, int64(len(p))), p...)
}

func bytesSize(p []byte) int {
	if p == nil {
		return 1
	}
	return varintSize(int64(len(p))) + len(p)
}
