package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"sawlog/offsets"
)

// errFormat is the root of all errors about bytes this build can't read.
var errFormat = errors.New("invalid metadata")

// appendRecord writes {type u8, version u8, body, tags}. Every record type is
// at version 0.
func appendRecord(dst []byte, r record) []byte {
	return r.encode(append(dst, byte(r.kind()), 0))
}

// decodeRecord reads what appendRecord wrote. An unknown type, version or tag
// is an error: a node that skipped one would hold another state than its peers.
func decodeRecord(src []byte) (record, error) {
	r := &reader{src: src}
	kind, version := recordType(r.uint8()), r.uint8()
	if r.err != nil {
		return nil, r.err
	}
	rec, known := newRecord(kind)
	if !known || version != 0 {
		return nil, fmt.Errorf("%w: record type %d version %d is not known to this build", errFormat, kind, version)
	}
	rec.decode(r)
	if err := r.done(); err != nil {
		return nil, fmt.Errorf("record type %d: %w", kind, err)
	}
	return rec, nil
}

func appendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }

func appendInt32[T ~int32](dst []byte, v T) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(v))
}

func appendInt64[T ~int64 | ~uint64](dst []byte, v T) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v))
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// appendString writes a compact string: length plus one, then the bytes.
func appendString(dst []byte, s string) []byte {
	return append(appendUvarint(dst, uint64(len(s))+1), s...)
}

// appendNullable writes a compact string in which a zero length means none.
func appendNullable(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, 0)
	}
	return appendString(dst, *s)
}

// appendBrokers writes a compact array of int32.
func appendBrokers(dst []byte, ids []offsets.BrokerID) []byte {
	dst = appendUvarint(dst, uint64(len(ids))+1)
	for _, id := range ids {
		dst = appendInt32(dst, id)
	}
	return dst
}

// appendTag writes one tagged field.
func appendTag(dst []byte, tag uint64, value []byte) []byte {
	dst = appendUvarint(dst, tag)
	dst = appendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// reader reads the types above. After the first fault it yields zeros and
// keeps the error. No length it meets makes it allocate more than the input
// could hold.
type reader struct {
	src []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errFormat, what)
		r.src = nil
	}
}

// done returns the first fault; bytes left over are one.
func (r *reader) done() error {
	if r.err == nil && len(r.src) > 0 {
		r.fail(fmt.Sprintf("%d bytes after the end", len(r.src)))
	}
	return r.err
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.src)) {
		r.fail("truncated")
		return nil
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) uint8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bool() bool {
	v := r.uint8()
	if v > 1 {
		r.fail("boolean other than 0 and 1")
	}
	return v == 1
}

func (r *reader) int16() int16 {
	if b := r.bytes(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.bytes(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.bytes(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uuid() (u UUID) {
	copy(u[:], r.bytes(uint64(len(u))))
	return u
}

func (r *reader) topicID() offsets.TopicID { return offsets.TopicID(r.uuid()) }

func (r *reader) brokerID() offsets.BrokerID { return offsets.BrokerID(r.int32()) }

func (r *reader) epoch() offsets.Epoch { return offsets.Epoch(r.int32()) }

// uvarint reads a varint in its shortest form only, so that equal values have
// equal bytes.
func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.src)
	if n <= 0 || n > 1 && r.src[n-1] == 0 {
		r.fail("malformed varint")
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *reader) string() string {
	s := r.nullable()
	if s == nil {
		r.fail("null string")
		return ""
	}
	return *s
}

func (r *reader) nullable() *string {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	s := string(r.bytes(n - 1))
	return &s
}

// arrayLen reads the length of a compact array whose elements take at least
// size bytes each.
func (r *reader) arrayLen(size int) int {
	n := r.uvarint()
	if n == 0 {
		r.fail("null array")
		return 0
	}
	if n-1 > uint64(len(r.src)/size) {
		r.fail("truncated")
		return 0
	}
	return int(n - 1)
}

func (r *reader) brokers() []offsets.BrokerID {
	n := r.arrayLen(4)
	if n == 0 {
		return nil
	}
	ids := make([]offsets.BrokerID, n)
	for i := range ids {
		ids[i] = r.brokerID()
	}
	return ids
}

// someBrokers reads a field that is left out where it would be empty.
func (r *reader) someBrokers() []offsets.BrokerID {
	ids := r.brokers()
	if len(ids) == 0 {
		r.fail("tagged without brokers")
	}
	return ids
}

// tags reads the tagged fields at the end of a record, in ascending order of
// tag; read returns false for one it doesn't know.
func (r *reader) tags(read func(tag uint64, r *reader) bool) {
	n, last := r.uvarint(), uint64(math.MaxUint64)
	for range n {
		tag, size := r.uvarint(), r.uvarint()
		field := &reader{src: r.bytes(size)}
		switch {
		case r.err != nil:
			return
		case last != math.MaxUint64 && tag <= last:
			r.fail("tags out of order")
			return
		case !read(tag, field):
			r.fail(fmt.Sprintf("tag %d is not known to this build", tag))
			return
		}
		if err := field.done(); err != nil {
			r.fail(fmt.Sprintf("tag %d: %v", tag, err))
			return
		}
		last = tag
	}
}

// noTags reads the tagged fields of a record that has none.
func (r *reader) noTags() { r.tags(func(uint64, *reader) bool { return false }) }
