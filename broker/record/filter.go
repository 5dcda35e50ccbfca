package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"sawlog/offsets"
)

// Filter makes of a batch one without some of its records, as compaction does:
//
//	for f.Next() { if wanted(f.Key()) { f.Keep() } }
//	if f.Err() == nil { smaller, err = f.Batch(NoTimestamp) }
//
// Base offset, last offset, epoch, producer, sequence, codec, the kind of
// timestamp and all flags stay what they were; count, greatest timestamp, length
// and CRC are those of the records kept, whose offsets do not change. It may be
// Reset to one batch after the other and then allocates nothing, once its
// buffers have grown. The zero value is ready for Reset.
type Filter struct {
	// MaxDecompressed caps the decompressed size of a batch in bytes; 0 is
	// DefaultMaxDecompressed.
	MaxDecompressed int

	unpacker
	batch  Batch
	body   []byte // decompressed
	frame  frame
	start  int // of the present record in body
	i      int
	kept   int
	latest int64  // greatest timestamp kept, by the deltas
	spans  []span // kept bytes of body
	err    error

	out  []byte
	next []byte // records before compression
}

// span is a stretch of a body.
type span struct{ from, to int }

// Reset begins with a whole batch. The CRC is not checked. The error, which Err
// returns as well, tells that the batch cannot be decompressed.
func (f *Filter) Reset(b Batch) error {
	f.batch = b
	f.frame.end, f.i, f.kept, f.latest, f.spans = 0, 0, 0, NoTimestamp, f.spans[:0]
	f.body, f.err = f.unpack(b, f.MaxDecompressed)
	return f.err
}

// Next goes to the next record.
func (f *Filter) Next() bool {
	if f.err != nil {
		return false
	}
	if f.i >= int(f.batch.Count()) {
		if f.frame.end != len(f.body) {
			f.err = at(ErrCorrupt, f.batch, f.i, errTrailing)
		}
		return false
	}
	f.start = f.frame.end
	err := f.frame.next(f.body, f.start)
	if err == nil && (f.frame.offsetDelta < 0 || f.frame.offsetDelta > int(f.batch.LastOffsetDelta())) {
		err = errDeltaRange
	}
	if err != nil {
		f.err = at(ErrCorrupt, f.batch, f.i, err)
		return false
	}
	f.i++
	return true
}

// Err tells why Next was false before the end of the batch.
func (f *Filter) Err() error { return f.err }

// Offset is that of the present record.
func (f *Filter) Offset() offsets.Offset {
	return f.batch.BaseOffset() + offsets.Offset(f.frame.offsetDelta)
}

// Key is the present record's, nil when it is null; valid until Reset.
func (f *Filter) Key() []byte { return part(f.body, f.frame.key, f.frame.keyLen) }

// Tombstone tells whether the present record's value is null.
func (f *Filter) Tombstone() bool { return f.frame.valLen < 0 }

// Keep makes the present record stay.
func (f *Filter) Keep() {
	if t := f.batch.BaseTimestamp() + f.frame.timestampDelta; f.kept == 0 || t > f.latest {
		f.latest = t
	}
	f.kept++
	if n := len(f.spans); n > 0 && f.spans[n-1].to == f.start {
		f.spans[n-1].to = f.frame.end
		return
	}
	f.spans = append(f.spans, span{f.start, f.frame.end})
}

// Kept is how many records stay so far.
func (f *Filter) Kept() int { return f.kept }

// Batch is the batch with what was kept: the very bytes of Reset when that is
// all and no horizon is set. A horizon other than NoTimestamp is left in the
// batch as the time from which its tombstones may go (KIP-534); the timestamps
// of the records do not change by that. Valid until the next Reset or Batch.
func (f *Filter) Batch(horizon int64) (Batch, error) {
	if f.err != nil {
		return nil, f.err
	}
	if f.kept == int(f.batch.Count()) && horizon == NoTimestamp {
		return f.batch, nil
	}
	if f.kept == 0 {
		return f.Empty(), nil
	}
	f.out = append(f.out[:0], f.batch[:HeaderSize]...)
	var err error
	if codec := f.batch.Codec(); codec == None {
		f.out = f.appendKept(f.out, horizon)
	} else {
		f.next = f.appendKept(f.next[:0], horizon)
		f.out, err = codec.Compress(f.out, f.next, DefaultLevel)
	}
	if err == nil && len(f.out) > math.MaxInt32 {
		err = fmt.Errorf("%w: batch of %d bytes", ErrInvalid, len(f.out))
	}
	if err != nil {
		return nil, err
	}
	b := Batch(f.out)
	if horizon != NoTimestamp {
		b[posAttributes+1] |= attrDeleteHorizon
		binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(horizon))
	}
	if !b.LogAppendTime() {
		binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(f.latest))
	}
	b.settle(f.kept)
	if cap(f.next) > keepBuffer {
		f.next = nil
	}
	return b, nil
}

// Empty is the header alone, without records and uncompressed: it tells what a
// producer wrote last, and where the log ends.
func (f *Filter) Empty() Batch {
	f.out = append(f.out[:0], f.batch[:HeaderSize]...)
	b := Batch(f.out)
	b[posAttributes+1] &^= attrCodec | attrDeleteHorizon
	noTime := int64(NoTimestamp)
	binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(noTime))
	b.settle(0)
	return b
}

// settle sets the fields that depend on the records' bytes.
func (b Batch) settle(count int) {
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-lengthOverhead))
	binary.BigEndian.PutUint32(b[posCount:], uint32(count))
	b.seal()
}

// appendKept appends the kept records: as they are, or with their times counted
// from the horizon.
func (f *Filter) appendKept(b []byte, horizon int64) []byte {
	if horizon == NoTimestamp {
		for _, s := range f.spans {
			b = append(b, f.body[s.from:s.to]...)
		}
		return b
	}
	shift := f.batch.BaseTimestamp() - horizon
	for _, s := range f.spans {
		for pos := s.from; pos < s.to; { // Next has walked over them: nothing is cut short
			length, n := varint32(f.body[pos:])
			pos += n
			end := pos + length
			delta, n := varint(f.body[pos+1:])
			rest := f.body[pos+1+n : end]
			b = appendVarint(b, int64(1+varintSize(delta+shift)+len(rest)))
			b = append(b, f.body[pos]) // attributes
			b = appendVarint(b, delta+shift)
			b = append(b, rest...)
			pos = end
		}
	}
	return b
}
