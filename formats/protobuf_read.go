package formats

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"sawlog/formats/protobuf"
)

// pbReader reads messages. Fields may come in any order, in several pieces and
// more than once, and columns take each value once, in the order of the rows;
// so a message is read in two passes: the first notes where the values of each
// wanted field lie, the second, over the fields, puts them into the columns.
// Both live in arenas that are used again: a good record allocates nothing.
type pbReader struct {
	wireRow
	values  []pbValue  // of all messages being read
	heads   []pbHead   // a field each, of all messages being read
	entries []mapEntry // of all maps being read
}

// pbValue is a value on the wire: its bytes, or for a number where it starts.
type pbValue struct {
	start, end int
	wire       byte
	next       int // of the same field; -1 = none
}

type pbHead struct{ first, last int } // into values; -1 = absent

// Wire types.
const (
	pbVarint, pbFixed64, pbBytes, pbGroup, pbGroupEnd, pbFixed32 = 0, 1, 2, 3, 4, 5
)

func (r *pbReader) fail(reason Reason, format string, args ...any) bool {
	r.err = &BadRecord{reason, fmt.Sprintf(format, args...)}
	return false
}

func (r *pbReader) misfit(f *protobuf.Field, s *sink, what string) bool {
	r.err = newMisfit(s, pbSeen(f), what)
	return false
}

// uvarint reads a number; n <= 0 when there is none.
func uvarint(b []byte) (v uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

// scan notes the wanted values of the message in [p, end).
func (r *pbReader) scan(m *pbMessage, base, p, end int) bool {
	for p < end {
		tag, n := uvarint(r.b[p:end])
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29-1 {
			return r.fail(BadSyntax, "byte %d: no field number", p)
		}
		wire := byte(tag & 7)
		v, next := r.extent(wire, tag>>3, p+n, end, 0)
		if next < 0 {
			return false
		}
		p = next
		at, known := m.at[int32(tag>>3)]
		if known && at == unwanted {
			continue
		}
		if !known || !fitsWire(m.fields[at].f, wire) {
			r.unknown++
			continue
		}
		for _, k := range m.fields[at].kin {
			r.heads[base+k] = pbHead{-1, -1}
		}
		head := &r.heads[base+at]
		r.values = append(r.values, v)
		if head.last >= 0 {
			r.values[head.last].next = len(r.values) - 1
		} else {
			head.first = len(r.values) - 1
		}
		head.last = len(r.values) - 1
	}
	return true
}

// extent finds a value's bytes and where the next field starts; -1 = the
// message is broken.
func (r *pbReader) extent(wire byte, number uint64, p, end, depth int) (v pbValue, next int) {
	v = pbValue{start: p, wire: wire, next: -1}
	switch wire {
	case pbVarint:
		if _, n := uvarint(r.b[p:end]); n > 0 {
			v.end = p + n
			return v, v.end
		}
	case pbFixed64, pbFixed32:
		size := 8
		if wire == pbFixed32 {
			size = 4
		}
		if p+size <= end {
			v.end = p + size
			return v, v.end
		}
	case pbBytes:
		if size, n := uvarint(r.b[p:end]); n > 0 && size <= uint64(end-p-n) {
			v.start, v.end = p+n, p+n+int(size)
			return v, v.end
		}
	case pbGroup:
		if depth > maxNesting {
			r.fail(BadTooDeep, "byte %d: groups nest deeper than %d", p, maxNesting)
			return v, -1
		}
		for p < end {
			tag, n := uvarint(r.b[p:end])
			if n <= 0 || tag>>3 == 0 {
				break
			}
			if tag&7 == pbGroupEnd {
				if tag>>3 != number {
					break
				}
				v.end = p
				return v, p + n
			}
			if _, p = r.extent(byte(tag&7), tag>>3, p+n, end, depth+1); p < 0 {
				return v, p
			}
		}
	}
	r.fail(BadSyntax, "byte %d: no protobuf value of wire type %d", v.start, wire)
	return v, -1
}

// wireOf is how a kind's single values lie.
func wireOf(k protobuf.Kind) byte {
	switch k {
	case protobuf.Fixed64, protobuf.Sfixed64, protobuf.Double:
		return pbFixed64
	case protobuf.Fixed32, protobuf.Sfixed32, protobuf.Float:
		return pbFixed32
	case protobuf.String, protobuf.Bytes, protobuf.Submessage:
		return pbBytes
	default:
		return pbVarint
	}
}

// fitsWire says that a field's value may lie so; any other is an unknown field.
func fitsWire(f *protobuf.Field, wire byte) bool {
	want := wireOf(f.Kind)
	return wire == want || f.Repeated && wire == pbBytes || f.Kind == protobuf.Submessage && wire == pbGroup
}

// open makes room for the fields of a message.
func (r *pbReader) open(m *pbMessage) (base int) {
	base = len(r.heads)
	for range m.fields {
		r.heads = append(r.heads, pbHead{-1, -1})
	}
	return base
}

// pieces scans all the pieces of a message, from the value on.
func (r *pbReader) pieces(m *pbMessage, value int) (base int, ok bool) {
	base = r.open(m)
	for ; value >= 0; value = r.values[value].next {
		if v := r.values[value]; !r.scan(m, base, v.start, v.end) {
			return base, false
		}
	}
	return base, true
}

// close drops a message's notes.
func (r *pbReader) close(heads, values int) {
	r.heads, r.values = r.heads[:heads], r.values[:values]
}

// message puts a scanned message into the columns.
func (r *pbReader) message(m *pbMessage, base int, rep int16) bool {
	for i := range m.fields {
		f := &m.fields[i]
		head := r.heads[base+i]
		for t := range f.takes {
			if !r.field(f.f, &f.takes[t], head, rep) {
				return false
			}
		}
		if f.path != nil && head.first >= 0 && !r.within(f.path, head.first, 0) {
			return false
		}
		if f.time && (head.last >= 0 || !f.f.Presence) && !r.time(f.f, head) {
			return false
		}
	}
	if m.s != nil {
		for _, s := range m.lacks {
			r.null(s, rep, m.s.def)
		}
	}
	return true
}

// within reads a message inside another.
func (r *pbReader) within(m *pbMessage, value int, rep int16) bool {
	heads, values := len(r.heads), len(r.values)
	base, ok := r.pieces(m, value)
	ok = ok && r.message(m, base, rep)
	r.close(heads, values)
	return ok
}

// field puts all values of a field into one column.
func (r *pbReader) field(f *protobuf.Field, t *pbTake, head pbHead, rep int16) bool {
	switch {
	case f.Map:
		return r.mapping(f, t, head, rep)
	case f.Repeated:
		return r.list(f, t, head, rep)
	case f.Kind == protobuf.Submessage:
		if head.first < 0 {
			r.null(t.s, rep, t.s.def-1)
			return true
		}
		return r.submessage(f.Message, t, head.first, rep)
	case head.last >= 0:
		v := r.values[head.last]
		return r.scalar(f, t.s, r.b[v.start:v.end], rep)
	case f.Presence:
		r.null(t.s, rep, t.s.def-1)
		return true
	default:
		return r.scalar(f, t.s, nil, rep)
	}
}

// submessage puts a message that is there, in one piece or more, into a column.
func (r *pbReader) submessage(m *protobuf.Message, t *pbTake, value int, rep int16) bool {
	s := t.s
	switch {
	case s.hash || s.kind == JSON:
		return r.json(m, s, value, rep)
	case s.kind == Struct:
		return r.within(t.sub, value, rep)
	case s.kind == Timestamp && m.Name == protobuf.Timestamp:
		at, ok := r.timestamp(value)
		if !ok {
			return false
		}
		v, ok := at.in(s.t.Unit)
		if !ok {
			r.err = newMisfit(s, "protobuf timestamp", "a timestamp so far away")
			return false
		}
		r.int64(s, v, rep)
		return true
	case t.sub != nil: // a wrapper
		heads, values := len(r.heads), len(r.values)
		base, ok := r.pieces(t.sub, value)
		if ok {
			var b []byte
			if last := r.heads[base].last; last >= 0 {
				b = r.b[r.values[last].start:r.values[last].end]
			}
			ok = r.scalar(t.sub.fields[0].f, s, b, rep)
		}
		r.close(heads, values)
		return ok
	default:
		r.bool(s, true, rep)
		return true
	}
}

// json adds a message as its canonical JSON; it is no fast path.
func (r *pbReader) json(m *protobuf.Message, s *sink, value int, rep int16) bool {
	var b []byte
	for ; value >= 0; value = r.values[value].next {
		b = append(b, r.b[r.values[value].start:r.values[value].end]...)
	}
	text, err := m.JSON(b)
	if err != nil {
		return r.fail(BadSyntax, "column %q: protobuf %s: %s", s.name, m.Name, err)
	}
	if s.hash {
		r.digest(s, text, rep)
	} else {
		r.utf8(s, text, rep)
	}
	return true
}

// stampFields are the fields of a google.protobuf.Timestamp.
var stampFields = &pbMessage{at: map[int32]int{1: 0, 2: 1}, fields: []pbField{
	{f: &protobuf.Field{Number: 1, Kind: protobuf.Int64}}, {f: &protobuf.Field{Number: 2, Kind: protobuf.Int32}},
}}

func (r *pbReader) timestamp(value int) (moment, bool) {
	heads, values := len(r.heads), len(r.values)
	base, ok := r.pieces(stampFields, value)
	var part [2]int64
	for i := range part {
		if last := r.heads[base+i].last; ok && last >= 0 {
			u, _ := uvarint(r.b[r.values[last].start:r.values[last].end])
			part[i] = int64(u)
		}
	}
	r.close(heads, values)
	m := moment{part[0], int32(part[1])}
	if ok && (!m.inRange() || part[1] < 0 || part[1] > 999_999_999) {
		ok = r.fail(BadTime, "protobuf timestamp of %d s and %d ns", part[0], part[1])
	}
	return m, ok
}

// list puts repeated values, packed or not, into a list.
func (r *pbReader) list(f *protobuf.Field, t *pbTake, head pbHead, rep int16) bool {
	some := false
	for at := head.first; at >= 0; at = r.values[at].next {
		v := r.values[at]
		single := wireOf(f.Kind)
		if f.Kind == protobuf.Submessage {
			next := v.next
			r.values[at].next = -1 // an element is one piece
			ok := r.submessage(f.Message, t.one, at, rep)
			r.values[at].next = next
			if !ok {
				return false
			}
			some, rep = true, t.s.rep
			continue
		}
		if v.wire == single {
			if !r.scalar(f, t.one.s, r.b[v.start:v.end], rep) {
				return false
			}
			some, rep = true, t.s.rep
			continue
		}
		for p := v.start; p < v.end; {
			one, next := r.extent(single, 0, p, v.end, 0)
			if next < 0 || !r.scalar(f, t.one.s, r.b[one.start:one.end], rep) {
				return false
			}
			p, some, rep = next, true, t.s.rep
		}
	}
	if !some {
		r.null(t.s, rep, t.s.def)
	}
	return true
}

// scalar puts a value's bytes into a column; nil is the zero value.
func (r *pbReader) scalar(f *protobuf.Field, s *sink, b []byte, rep int16) bool {
	switch f.Kind {
	case protobuf.String, protobuf.Bytes:
		switch {
		case s.hash:
			r.digest(s, b, rep)
		case s.kind == String:
			r.utf8(s, b, rep)
		case s.kind == Bytes:
			r.bytes(s, b, rep)
		default:
			return r.text(s, b, rep) || r.misfit(f, s, strconv.Quote(string(b[:min(len(b), 40)])))
		}
		return true
	case protobuf.Float, protobuf.Double:
		return r.floating(f, s, b, rep)
	case protobuf.Bool:
		u, _ := uvarint(b)
		if s.hash {
			r.digits = strconv.AppendBool(r.digits[:0], u != 0)
			r.digest(s, r.digits, rep)
		} else {
			r.bool(s, u != 0, rep)
		}
		return true
	}
	v, wide := pbInteger(f.Kind, b)
	switch {
	case f.Kind == protobuf.Enum && s.kind == String:
		return r.enum(f, s, int32(v), rep)
	case s.kind == Int64 && !wide:
		r.int64(s, v, rep)
		return true
	case s.kind == Int32 && v == int64(int32(v)) && !wide:
		r.int32(s, int32(v), rep)
		return true
	}
	r.digits = appendInteger(r.digits[:0], v, wide)
	return r.number(s, r.digits, rep) || r.misfit(f, s, string(r.digits))
}

func appendInteger(dst []byte, v int64, wide bool) []byte {
	if wide {
		return strconv.AppendUint(dst, uint64(v), 10)
	}
	return strconv.AppendInt(dst, v, 10)
}

// pbInteger reads an integer; wide says that it is beyond int64, so that its
// bits are those of a uint64.
func pbInteger(k protobuf.Kind, b []byte) (v int64, wide bool) {
	if b == nil {
		return 0, false
	}
	switch k {
	case protobuf.Fixed32:
		return int64(binary.LittleEndian.Uint32(b)), false
	case protobuf.Sfixed32:
		return int64(int32(binary.LittleEndian.Uint32(b))), false
	case protobuf.Fixed64, protobuf.Sfixed64:
		v = int64(binary.LittleEndian.Uint64(b))
		return v, k == protobuf.Fixed64 && v < 0
	}
	u, _ := uvarint(b)
	switch k {
	case protobuf.Int32, protobuf.Enum:
		return int64(int32(u)), false
	case protobuf.Uint32:
		return int64(uint32(u)), false
	case protobuf.Sint32:
		return int64(int32(uint32(u)>>1) ^ -int32(u&1)), false
	case protobuf.Sint64:
		return int64(u>>1) ^ -int64(u&1), false
	default:
		return int64(u), k == protobuf.Uint64 && u > math.MaxInt64
	}
}

// enum adds the name of a number, or the number where the schema has no name.
func (r *pbReader) enum(f *protobuf.Field, s *sink, v int32, rep int16) bool {
	name, known := f.Symbols[v]
	r.digits = append(r.digits[:0], name...)
	if !known {
		r.digits = strconv.AppendInt(r.digits[:0], int64(v), 10)
	}
	if s.hash {
		r.digest(s, r.digits, rep)
	} else {
		r.bytes(s, r.digits, rep)
	}
	return true
}

func pbFloat(k protobuf.Kind, b []byte) float64 {
	switch {
	case b == nil:
		return 0
	case k == protobuf.Float:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	default:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
}

func (r *pbReader) floating(f *protobuf.Field, s *sink, b []byte, rep int16) bool {
	v := pbFloat(f.Kind, b)
	vec, leaf := r.at(s)
	switch {
	case !s.hash && s.kind == Double:
		vec.Doubles = append(vec.Doubles, v)
	case !s.hash && s.kind == Float:
		vec.Floats = append(vec.Floats, float32(v))
	default:
		r.digits = strconv.AppendFloat(r.digits[:0], v, 'f', -1, 64)
		return r.number(s, r.digits, rep) || r.misfit(f, s, string(r.digits))
	}
	vec.level(leaf, s.def, rep)
	return true
}

// time reads the event time.
func (r *pbReader) time(f *protobuf.Field, head pbHead) bool {
	var b []byte
	if head.last >= 0 {
		b = r.b[r.values[head.last].start:r.values[head.last].end]
	}
	ok := false
	switch f.Kind {
	case protobuf.Submessage:
		r.event, ok = r.timestamp(head.first)
		r.timed = ok
		return ok
	case protobuf.String:
		if len(b) == 0 && head.last < 0 {
			return true // none
		}
		r.event, ok = r.times.text(b, r.ref)
		r.digits = append(r.digits[:0], b[:min(len(b), 60)]...)
	case protobuf.Float, protobuf.Double:
		r.digits = strconv.AppendFloat(r.digits[:0], pbFloat(f.Kind, b), 'f', -1, 64)
		r.event, ok = r.times.number(r.digits)
	default:
		v, wide := pbInteger(f.Kind, b)
		r.digits = appendInteger(r.digits[:0], v, wide)
		r.event, ok = r.times.number(r.digits)
	}
	if !ok {
		return r.fail(BadTime, "%q is no time in format %s", r.digits, r.times.name)
	}
	r.timed = true
	return true
}
