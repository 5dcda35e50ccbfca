package record

import (
	"errors"
	"fmt"
)

// errShort and its like are made once: the walk is on the hot path.
var (
	errShort      = errors.New("record is cut short")
	errLength     = errors.New("record length does not fit its fields")
	errKey        = errors.New("key length out of range")
	errValue      = errors.New("value length out of range")
	errHeaders    = errors.New("header out of range")
	errTrailing   = errors.New("bytes after the last record")
	errDelta      = errors.New("offset delta out of order")
	errDeltaRange = errors.New("offset delta beyond the batch")
)

// frame is where the parts of one record lie in its body; a null key or value
// has length −1.
type frame struct {
	timestampDelta int64
	offsetDelta    int
	key, keyLen    int
	value, valLen  int
	headers        int // position of the first header
	headerCount    int
	end            int // position after the record
}

// next reads the frame of the record at pos, headers included but not kept.
func (f *frame) next(body []byte, pos int) error {
	length, n := varint32(body[pos:])
	if n == 0 || length < 0 || length > len(body)-pos-n {
		return errShort
	}
	pos += n
	b := body[:pos+length]
	f.end = len(b)
	if length == 0 {
		return errShort
	}
	pos++ // attributes of a record: unused
	if f.timestampDelta, n = varint(b[pos:]); n == 0 {
		return errShort
	}
	pos += n
	if f.offsetDelta, n = varint32(b[pos:]); n == 0 {
		return errShort
	}
	pos += n
	if f.keyLen, n = varint32(b[pos:]); n == 0 || f.keyLen > len(b)-pos-n {
		return errKey
	}
	pos += n
	f.key, f.keyLen = pos, max(f.keyLen, -1)
	pos += max(f.keyLen, 0)
	if f.valLen, n = varint32(b[pos:]); n == 0 || f.valLen > len(b)-pos-n {
		return errValue
	}
	pos += n
	f.value, f.valLen = pos, max(f.valLen, -1)
	pos += max(f.valLen, 0)
	if f.headerCount, n = varint32(b[pos:]); n == 0 || f.headerCount < 0 {
		return errHeaders
	}
	pos += n
	f.headers = pos
	for range f.headerCount {
		for part := range 2 {
			size, n := varint32(b[pos:])
			if n == 0 || size > len(b)-pos-n || size < part*-1 {
				return errHeaders
			}
			pos += n + max(size, 0)
		}
	}
	if pos != len(b) {
		return errLength
	}
	return nil
}

// RecordError tells which record of a batch is wrong.
type RecordError struct {
	Kind  error // ErrInvalid or another one of this package
	Index int   // in the batch
	Base  int64 // offset of the batch
	Err   error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%v: record %d of offset %d: %v", e.Kind, e.Index, e.Base, e.Err)
}

func (e *RecordError) Unwrap() []error { return []error{e.Kind, e.Err} }

// quick is next for what nearly every record is like: no headers, no length or
// delta of more than two bytes. False means that next has to look, and nothing
// else.
func (f *frame) quick(body []byte, pos int) bool {
	if len(body)-pos < 16 {
		return false
	}
	head := (*[16]byte)(body[pos:])
	length, i := uint(head[0]), 1
	if length >= 0x80 {
		length, i = length&0x7f|uint(head[1])<<7, 2
	}
	end := pos + i + int(length>>1)
	i++ // attributes
	stamp := uint(head[i])
	if i++; stamp >= 0x80 {
		stamp = stamp&0x7f | uint(head[i])<<7
		i++
	}
	delta := uint(head[i])
	if i++; delta >= 0x80 {
		delta = delta&0x7f | uint(head[i])<<7
		i++
	}
	key := uint(head[i])
	if i++; key >= 0x80 {
		key = key&0x7f | uint(head[i])<<7
		i++
	}
	// A third byte would show in bit 14; a length has no sign but for null.
	if (length|stamp|delta|key)>>14 != 0 || length&1 != 0 || end > len(body) || key&1 != 0 && key != 1 {
		return false
	}
	f.key, f.keyLen = pos+i, int(key>>1)^-int(key&1)
	pos = f.key + max(f.keyLen, 0)
	if pos+2 >= end {
		return false
	}
	value := uint(body[pos])
	if pos++; value >= 0x80 {
		value = value&0x7f | uint(body[pos])<<7
		pos++
	}
	f.value, f.valLen = pos, int(value>>1)^-int(value&1)
	pos += max(f.valLen, 0)
	if value>>14 != 0 || value&1 != 0 && value != 1 || pos != end-1 || body[pos] != 0 {
		return false
	}
	f.timestampDelta = int64(stamp>>1) ^ -int64(stamp&1)
	f.offsetDelta = int(delta>>1) ^ -int(delta&1)
	f.headers, f.headerCount, f.end = end, 0, end
	return true
}

// at wraps what is wrong with record i of a batch.
func at(kind error, b Batch, i int, err error) error {
	return &RecordError{Kind: kind, Index: i, Base: int64(b.BaseOffset()), Err: err}
}
