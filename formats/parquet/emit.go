package parquet

import "encoding/binary"

// emitter writes Thrift structs in the compact protocol as it goes, without a
// tree. The struct it is made with is open.
type emitter struct {
	b     []byte
	last  [16]int16 // id of the last field, per open struct
	depth int
}

// field writes a field header.
func (e *emitter) field(id int16, kind byte) {
	if delta := id - e.last[e.depth]; delta > 0 && delta <= 15 {
		e.b = append(e.b, byte(delta)<<4|kind)
	} else {
		e.b = appendVarint(append(e.b, kind), int64(id))
	}
	e.last[e.depth] = id
}

func (e *emitter) int(id int16, kind byte, n int64) {
	e.field(id, kind)
	e.b = appendVarint(e.b, n)
}

func (e *emitter) bool(id int16, v bool) {
	kind := byte(tFalse)
	if v {
		kind = tTrue
	}
	e.field(id, kind)
}

func (e *emitter) text(id int16, s string) {
	e.field(id, tBinary)
	e.string(s)
}

func (e *emitter) string(s string) {
	e.b = append(binary.AppendUvarint(e.b, uint64(len(s))), s...)
}

// list begins a list; its n entries follow.
func (e *emitter) list(id int16, elem byte, n int) {
	e.field(id, tList)
	if n < 15 {
		e.b = append(e.b, byte(n)<<4|elem)
	} else {
		e.b = binary.AppendUvarint(append(e.b, 0xf0|elem), uint64(n))
	}
}

// open begins a struct in a field.
func (e *emitter) open(id int16) {
	e.field(id, tStruct)
	e.entry()
}

// entry begins a struct in a list.
func (e *emitter) entry() {
	e.depth++
	e.last[e.depth] = 0
}

// close ends the innermost struct; the outermost, too.
func (e *emitter) close() {
	e.b = append(e.b, 0)
	e.depth--
}

// empty writes a struct without fields in a field.
func (e *emitter) empty(id int16) {
	e.field(id, tStruct)
	e.b = append(e.b, 0)
}
