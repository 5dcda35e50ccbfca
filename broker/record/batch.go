package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"sawlog/offsets"
)

// Positions of the fields of a batch.
const (
	posBaseOffset      = 0
	posLength          = 8
	posEpoch           = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57

	// HeaderSize is the length of a batch without records.
	HeaderSize = 61
	// lengthOverhead is what the length field does not count.
	lengthOverhead = 12
	// prefixSize is what must be there to tell the length and the magic.
	prefixSize = 17

	magicV2 = 2
)

// Bits of the attributes.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

// NoProducer is the producer id of a batch that has none.
const NoProducer = -1

// NoSequence is the sequence of a batch that has none.
const NoSequence = -1

// NoTimestamp stands where a time is not known.
const NoTimestamp = -1

var (
	// ErrCorrupt marks bytes that are no whole batch, or whose CRC is wrong.
	ErrCorrupt = errors.New("corrupt batch")
	// ErrInvalid marks a batch that is whole but breaks a rule.
	ErrInvalid = errors.New("invalid batch")
	// ErrMagic marks a record set of the formats before version 2.
	ErrMagic = errors.New("unsupported record format")
	// ErrUnsupportedCodec marks a compression no codec of ours reads.
	ErrUnsupportedCodec = errors.New("unsupported compression")
	// ErrTimestamp marks a record whose time lies outside the allowed span.
	ErrTimestamp = errors.New("timestamp out of range")
	// ErrTooLarge marks a batch that expands beyond the decompression cap.
	ErrTooLarge = errors.New("decompressed batch too large")
)

// castagnoli is the polynomial of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one whole batch. Its methods read the fields in place; they expect
// at least HeaderSize bytes, which Split makes sure of.
type Batch []byte

// BaseOffset is the offset of the first record.
func (b Batch) BaseOffset() offsets.Offset {
	return offsets.Offset(binary.BigEndian.Uint64(b[posBaseOffset:]))
}

// LastOffset is the offset of the last record, also when compaction removed it.
func (b Batch) LastOffset() offsets.Offset {
	return b.BaseOffset() + offsets.Offset(b.LastOffsetDelta())
}

// Size is the length of the whole batch in bytes, as its length field says.
func (b Batch) Size() int {
	return lengthOverhead + int(int32(binary.BigEndian.Uint32(b[posLength:])))
}

// Epoch is the leader epoch the batch was appended in.
func (b Batch) Epoch() offsets.Epoch {
	return offsets.Epoch(binary.BigEndian.Uint32(b[posEpoch:]))
}

// Magic is the version of the format; 2 where it is a batch.
func (b Batch) Magic() byte { return b[posMagic] }

// CRC is the checksum the batch carries.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// Attributes are the flag bits.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[posAttributes:])) }

// Codec is the compression of the records.
func (b Batch) Codec() Codec { return Codec(b[posAttributes+1] & attrCodec) }

// LastOffsetDelta is the last offset less the base offset.
func (b Batch) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:]))
}

// BaseTimestamp is what the timestamp deltas of the records count from, in
// milliseconds since 1970; with a delete horizon it is that horizon.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posBaseTimestamp:])) }

// MaxTimestamp is the greatest timestamp of the records, in milliseconds.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])) }

// ProducerID is NoProducer without idempotence.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[posProducerID:])) }

// ProducerEpoch is the epoch of the producer id.
func (b Batch) ProducerEpoch() int16 {
	return int16(binary.BigEndian.Uint16(b[posProducerEpoch:]))
}

// BaseSequence is the sequence of the first record.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[posBaseSequence:])) }

// LastSequence is the sequence of the last record; after 2^31-1 comes 0.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence() == NoSequence {
		return NoSequence
	}
	return int32((int64(b.BaseSequence()) + int64(b.LastOffsetDelta())) & 0x7fffffff)
}

// Count is the number of records.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[posCount:])) }

// IsControl tells whether the batch holds a transaction marker.
func (b Batch) IsControl() bool { return b[posAttributes+1]&attrControl != 0 }

// IsTransactional tells whether the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b[posAttributes+1]&attrTransactional != 0 }

// LogAppendTime tells whether MaxTimestamp, set by the broker, is the time of
// every record.
func (b Batch) LogAppendTime() bool { return b[posAttributes+1]&attrLogAppendTime != 0 }

// HasDeleteHorizon tells whether compaction left the time from which
// tombstones may go in BaseTimestamp.
func (b Batch) HasDeleteHorizon() bool { return b[posAttributes+1]&attrDeleteHorizon != 0 }

// Stamp sets base offset and leader epoch in place; neither is under the CRC.
func (b Batch) Stamp(base offsets.Offset, epoch offsets.Epoch) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(base))
	binary.BigEndian.PutUint32(b[posEpoch:], uint32(epoch))
}

// SetMaxTimestamp sets the greatest timestamp and whose it is, with a new CRC.
func (b Batch) SetMaxTimestamp(t int64, logAppend bool) {
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(t))
	b[posAttributes+1] &^= attrLogAppendTime
	if logAppend {
		b[posAttributes+1] |= attrLogAppendTime
	}
	b.seal()
}

// seal computes the CRC anew.
func (b Batch) seal() {
	binary.BigEndian.PutUint32(b[posCRC:], crc32.Checksum(b[posAttributes:], castagnoli))
}

// CheckCRC compares the CRC with the bytes.
func (b Batch) CheckCRC() error {
	if got := crc32.Checksum(b[posAttributes:], castagnoli); got != b.CRC() {
		return fmt.Errorf("%w: crc %08x of offset %d, computed %08x", ErrCorrupt, b.CRC(), b.BaseOffset(), got)
	}
	return nil
}

// Split cuts the first batch off a record set. It checks length and magic, not
// the CRC. io.EOF means b is empty, io.ErrUnexpectedEOF that the batch is cut
// short, as the last one of a fetch may be.
func Split(b []byte) (first Batch, rest []byte, err error) {
	size, err := PeekSize(b)
	if err != nil {
		return nil, b, err
	}
	if len(b) < size {
		return nil, b, io.ErrUnexpectedEOF
	}
	return Batch(b[:size:size]), b[size:], nil
}

// PeekSize is the size of the whole batch that b begins with; b may hold less
// than that.
func PeekSize(b []byte) (int, error) {
	switch {
	case len(b) == 0:
		return 0, io.EOF
	case len(b) < prefixSize:
		return 0, io.ErrUnexpectedEOF
	}
	length := int32(binary.BigEndian.Uint32(b[posLength:]))
	if magic := b[posMagic]; magic < magicV2 && length > 0 {
		return 0, fmt.Errorf("%w: magic %d", ErrMagic, magic)
	} else if magic != magicV2 {
		return 0, fmt.Errorf("%w: magic %d, length %d", ErrCorrupt, magic, length)
	}
	if length < HeaderSize-lengthOverhead {
		return 0, fmt.Errorf("%w: length %d", ErrCorrupt, length)
	}
	return int(length) + lengthOverhead, nil
}
