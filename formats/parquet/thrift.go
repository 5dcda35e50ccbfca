package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The footer is a Thrift struct in the compact protocol. It is read as a plain
// tree, mended and written again, so that fields we do not know survive.

// The wire types of the compact protocol.
const (
	tTrue   = 1
	tFalse  = 2
	tByte   = 3
	tI16    = 4
	tI32    = 5
	tI64    = 6
	tDouble = 7
	tBinary = 8
	tList   = 9
	tSet    = 10
	tStruct = 12
)

// tValue is one value; which fields count follows from kind.
type tValue struct {
	kind   byte
	n      int64    // integers
	bytes  []byte   // binaries, and doubles as they lie
	elem   byte     // of a list
	list   []tValue // entries
	fields []tField // of a struct, by ascending id
}

type tField struct {
	id int16
	v  tValue
}

func tInt(kind byte, n int64) tValue { return tValue{kind: kind, n: n} }
func tBytes(b []byte) tValue         { return tValue{kind: tBinary, bytes: b} }
func tBool(v bool) tValue {
	if v {
		return tValue{kind: tTrue}
	}
	return tValue{kind: tFalse}
}

// get is field id of a struct; nil = not set.
func (v *tValue) get(id int16) *tValue {
	if v == nil {
		return nil
	}
	for i := range v.fields {
		if v.fields[i].id == id {
			return &v.fields[i].v
		}
	}
	return nil
}

// int is the integer in field id; 0 = not set.
func (v *tValue) int(id int16) int64 {
	if f := v.get(id); f != nil {
		return f.n
	}
	return 0
}

// set sets field id, keeping the order.
func (v *tValue) set(id int16, to tValue) {
	at, found := slices.BinarySearchFunc(v.fields, id, func(f tField, id int16) int { return int(f.id) - int(id) })
	if found {
		v.fields[at].v = to
	} else {
		v.fields = slices.Insert(v.fields, at, tField{id, to})
	}
}

// unset removes field id.
func (v *tValue) unset(id int16) {
	v.fields = slices.DeleteFunc(v.fields, func(f tField) bool { return f.id == id })
}

var errThrift = errors.New("malformed footer")

// tReader reads a tree; errors are sticky. Structs share slabs of fields, for
// a footer has many small ones.
type tReader struct {
	b    []byte
	err  error
	open []tField // fields of structs that are being read
	slab []tField
}

// keep moves the open fields from a place on to memory of their own.
func (r *tReader) keep(from int) []tField {
	n := len(r.open) - from
	if n > len(r.slab) {
		r.slab = make([]tField, max(n, min(64, len(r.b)/2)))
	}
	kept := r.slab[:n:n]
	r.slab = r.slab[n:]
	copy(kept, r.open[from:])
	r.open = r.open[:from]
	return kept
}

func (r *tReader) fail() {
	if r.err == nil {
		r.err = errThrift
	}
	r.b = nil
}

func (r *tReader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *tReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *tReader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *tReader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *tReader) value(kind byte, depth int) tValue {
	v := tValue{kind: kind}
	if depth > 64 {
		r.fail()
		return v
	}
	switch kind {
	case tTrue, tFalse:
	case tByte:
		v.n = int64(int8(r.byte()))
	case tI16, tI32, tI64:
		v.n = r.varint()
	case tDouble:
		v.bytes = r.take(8)
	case tBinary:
		v.bytes = r.take(r.uvarint())
	case tList, tSet:
		head := r.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = r.uvarint()
		}
		v.elem = head & 15
		if n > uint64(len(r.b)) { // every entry takes a byte
			r.fail()
			return v
		}
		v.list = make([]tValue, 0, n)
		for range n {
			kind := v.elem
			if kind == tTrue || kind == tFalse {
				kind = r.byte()
			}
			v.list = append(v.list, r.value(kind, depth+1))
			if r.err != nil {
				return v
			}
		}
	case tStruct:
		v.fields = r.structure(depth)
	default: // the footer has no maps
		r.fail()
	}
	return v
}

func (r *tReader) structure(depth int) []tField {
	id, from := int16(0), len(r.open)
	for r.err == nil {
		head := r.byte()
		if head == 0 {
			break
		}
		if delta := int16(head >> 4); delta != 0 {
			id += delta
		} else {
			id = int16(r.varint())
		}
		v := r.value(head&15, depth+1)
		r.open = append(r.open, tField{id, v})
	}
	return r.keep(from)
}

// parseThrift reads one struct that fills b.
func parseThrift(b []byte) (*tValue, error) {
	r := tReader{b: b}
	v := r.value(tStruct, 0)
	if r.err == nil && len(r.b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", errThrift, len(r.b))
	}
	return &v, r.err
}

func appendVarint(b []byte, n int64) []byte {
	return binary.AppendUvarint(b, uint64(n)<<1^uint64(n>>63))
}

// append writes the value without a field header.
func (v *tValue) append(b []byte) []byte {
	switch v.kind {
	case tTrue, tFalse: // in a field its header is the value
	case tByte:
		b = append(b, byte(v.n))
	case tI16, tI32, tI64:
		b = appendVarint(b, v.n)
	case tDouble:
		b = append(b, v.bytes...)
	case tBinary:
		b = binary.AppendUvarint(b, uint64(len(v.bytes)))
		b = append(b, v.bytes...)
	case tList, tSet:
		if len(v.list) < 15 {
			b = append(b, byte(len(v.list))<<4|v.elem)
		} else {
			b = append(b, 0xf0|v.elem)
			b = binary.AppendUvarint(b, uint64(len(v.list)))
		}
		for i := range v.list {
			if v.elem == tTrue || v.elem == tFalse {
				b = append(b, v.list[i].kind)
			}
			b = v.list[i].append(b)
		}
	case tStruct:
		last := int16(0)
		for i := range v.fields {
			f := &v.fields[i]
			if delta := f.id - last; delta > 0 && delta <= 15 {
				b = append(b, byte(delta)<<4|f.v.kind)
			} else {
				b = appendVarint(append(b, f.v.kind), int64(f.id))
			}
			last = f.id
			b = f.v.append(b)
		}
		b = append(b, 0)
	}
	return b
}
