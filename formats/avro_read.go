package formats

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"sawlog/formats/avro"
)

// avroReader runs programs over the bytes of one record. Positions below zero
// say that err has the reason; nothing is allocated for a good record.
type avroReader struct {
	wireRow
	depth int        // of records within records, where the schema is recursive
	empty int        // elements of no bytes met
	maps  []mapEntry // entries of the maps being read
}

// maxEmpty is how many elements of no bytes one record may hold: such a list
// costs its writer nothing.
const maxEmpty = 1 << 20

func (r *avroReader) fail(reason Reason, format string, args ...any) int {
	r.err = &BadRecord{reason, fmt.Sprintf(format, args...)}
	return -1
}

func (r *avroReader) short(p int) int {
	return r.fail(BadSyntax, "byte %d: the value ends in the middle of an avro value", p)
}

// misfit refuses a value that its column can't hold.
func (r *avroReader) misfit(n *avroNode, what string) int {
	seen := "avro " + avroName(n.w)
	r.err = newMisfit(n.s, seen, seen+" "+what)
	return -1
}

// long reads a variable-length zig-zag number. One of up to eight bytes is read
// as a word: the last byte is the first whose top bit is 0, and what stands before
// the groups of seven bits moves together in three steps.
func (r *avroReader) long(p int) (int64, int) {
	if b := r.b[p:]; len(b) >= 8 {
		u := binary.LittleEndian.Uint64(b)
		if last := ^u & 0x8080808080808080; last != 0 {
			u &= (last ^ (last - 1)) & 0x7f7f7f7f7f7f7f7f
			u = u&0x007f007f007f007f | u&0x7f007f007f007f00>>1
			u = u&0x00003fff00003fff | u&0x3fff00003fff0000>>2
			u = u&0x000000000fffffff | u&0x0fffffff00000000>>4
			return int64(u>>1) ^ -int64(u&1), p + bits.TrailingZeros64(last)/8 + 1
		}
	}
	return r.longer(p)
}

// longer reads a number near the end of the value, or a longer one.
func (r *avroReader) longer(p int) (int64, int) {
	u, n := binary.Uvarint(r.b[p:])
	if n <= 0 {
		if n < 0 {
			return 0, r.fail(BadSyntax, "byte %d: a number of more than 64 bits", p)
		}
		return 0, r.short(p)
	}
	return int64(u>>1) ^ -int64(u&1), p + n
}

// integer reads an int or long of the writer.
func (r *avroReader) integer(w *avro.Type, p int) (int64, int) {
	v, end := r.long(p)
	if end > 0 && w.Kind == avro.Int && v != int64(int32(v)) {
		return 0, r.fail(BadSyntax, "byte %d: %d is no 32-bit int", p, v)
	}
	return v, end
}

// sized reads bytes or a string, or a fixed.
func (r *avroReader) sized(w *avro.Type, p int) ([]byte, int) {
	n := int64(w.Size)
	if w.Kind != avro.Fixed {
		if n, p = r.long(p); p < 0 {
			return nil, p
		}
	}
	if n < 0 || n > int64(len(r.b)-p) {
		return nil, r.fail(BadSyntax, "byte %d: a length of %d, with %d bytes left", p, n, len(r.b)-p)
	}
	end := p + int(n)
	return r.b[p:end:end], end
}

// double reads a float or double.
func (r *avroReader) double(w *avro.Type, p int) (float64, int) {
	if w.Kind == avro.Float {
		if p+4 > len(r.b) {
			return 0, r.short(p)
		}
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(r.b[p:]))), p + 4
	}
	if p+8 > len(r.b) {
		return 0, r.short(p)
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(r.b[p:])), p + 8
}

func (r *avroReader) boolean(p int) (bool, int) {
	if p >= len(r.b) {
		return false, r.short(p)
	}
	if r.b[p] > 1 {
		return false, r.fail(BadSyntax, "byte %d: %#02x is no boolean", p, r.b[p])
	}
	return r.b[p] == 1, p + 1
}

// index reads the index of a branch or symbol.
func (r *avroReader) index(of int, what string, p int) (int, int) {
	v, end := r.long(p)
	if end > 0 && (v < 0 || v >= int64(of)) {
		return 0, r.fail(BadSyntax, "byte %d: %s %d of %d", p, what, v, of)
	}
	return int(v), end
}

// block reads the count of a block of items; 0 = there is none. A negative
// count is followed by the block's size, which a reader has no need of.
func (r *avroReader) block(p int) (int64, int) {
	n, p := r.long(p)
	if p < 0 || n >= 0 {
		return n, p
	}
	if _, p = r.long(p); p >= 0 && n == math.MinInt64 {
		p = r.fail(BadSyntax, "byte %d: a block of %d items", p, n)
	}
	return -n, p
}

// item counts an item that took no bytes.
func (r *avroReader) item(from, to int) int {
	if from == to {
		if r.empty++; r.empty > maxEmpty {
			return r.fail(BadSyntax, "byte %d: more than %d items of no bytes", from, maxEmpty)
		}
	}
	return to
}

func (r *avroReader) deeper(p int) bool {
	if r.depth++; r.depth <= maxNesting {
		return true
	}
	r.fail(BadTooDeep, "byte %d: records nest deeper than %d", p, maxNesting)
	return false
}

// skip passes over a value.
func (r *avroReader) skip(w *avro.Type, p int) int {
	switch w.Kind {
	case avro.Null:
	case avro.Boolean:
		_, p = r.boolean(p)
	case avro.Int, avro.Long:
		_, p = r.integer(w, p)
	case avro.Float, avro.Double:
		_, p = r.double(w, p)
	case avro.Bytes, avro.String, avro.Fixed:
		_, p = r.sized(w, p)
	case avro.Enum:
		_, p = r.index(len(w.Symbols), "symbol", p)
	case avro.Union:
		var at int
		if at, p = r.index(len(w.Branches), "branch", p); p >= 0 {
			p = r.skip(w.Branches[at], p)
		}
	case avro.Record:
		if !r.deeper(p) {
			return -1
		}
		for i := range w.Fields {
			if p = r.skip(w.Fields[i].Type, p); p < 0 {
				return p
			}
		}
		r.depth--
	case avro.Array, avro.Map:
		return r.skipItems(w, p)
	}
	return p
}

func (r *avroReader) skipItems(w *avro.Type, p int) int {
	for {
		count, at := r.block(p)
		if p = at; p < 0 || count == 0 {
			return p
		}
		for ; count > 0; count-- {
			if w.Kind == avro.Map {
				if _, p = r.sized(stringType, p); p < 0 {
					return p
				}
			}
			if p = r.item(p, r.skip(w.Elem, p)); p < 0 {
				return p
			}
		}
	}
}

// stringType is the type of the keys of maps.
var stringType = &avro.Type{Kind: avro.String, Name: "string"}

// value reads the value at p.
func (r *avroReader) value(n *avroNode, p int, rep int16) int {
	switch n.code {
	case avroInt64:
		v, end := r.integer(n.w, p)
		if end > 0 {
			if r.int64(n.s, v, rep); n.elem != nil {
				return r.instant(n.elem, v, end)
			}
		}
		return end
	case avroInt32:
		v, end := r.integer(n.w, p)
		if end > 0 && v != int64(int32(v)) {
			return r.misfit(n, strconv.FormatInt(v, 10))
		}
		if end > 0 {
			r.int32(n.s, int32(v), rep)
		}
		return end
	case avroString, avroBytesText:
		text, end := r.sized(n.w, p)
		if end >= 0 {
			r.utf8(n.s, text, rep)
		}
		return end
	case avroBytes:
		v, end := r.sized(n.w, p)
		if end >= 0 {
			r.bytes(n.s, v, rep)
		}
		return end
	case avroUnion:
		if p < len(r.b) && r.b[p]&0x81 == 0 && int(r.b[p]>>1) < len(n.kids) {
			return r.value(n.kids[r.b[p]>>1], p+1, rep)
		}
		at, end := r.index(len(n.kids), "branch", p)
		if end < 0 {
			return end
		}
		return r.value(n.kids[at], end, rep)
	case avroNull:
		r.null(n.s, rep, n.s.def-1)
		return p
	case avroRecord:
		return r.record(n, p, rep)
	case avroSkip:
		return r.skip(n.w, p)
	case avroBool:
		v, end := r.boolean(p)
		if end >= 0 {
			r.bool(n.s, v, rep)
		}
		return end
	case avroEnum:
		at, end := r.index(len(n.symbols), "symbol", p)
		if end >= 0 {
			r.bytes(n.s, n.symbols[at], rep)
		}
		return end
	case avroFloat, avroFloatDouble, avroDouble, avroFloatEpoch:
		return r.floating(n, p, rep)
	case avroArray:
		return r.array(n, p, rep)
	case avroMap:
		return r.mapping(n, p, rep)
	default:
		return r.rare(n, p, rep)
	}
}

// rare reads what most schemas have none of.
func (r *avroReader) rare(n *avroNode, p int, rep int16) int {
	switch n.code {
	case avroMany:
		end := p
		for _, kid := range n.kids {
			if end = r.value(kid, p, rep); end < 0 {
				break
			}
		}
		return end
	case avroBranch:
		end := r.value(n.elem, p, rep)
		if end >= 0 {
			r.nulls(n.lacks, rep, n.s.def)
		}
		return end
	case avroPresent:
		if p = r.skip(n.w, p); p >= 0 {
			r.bool(n.s, true, rep)
		}
		return p
	case avroIntDouble, avroIntDecimal, avroEpoch, avroRescale:
		return r.converted(n, p, rep)
	case avroText:
		text, end := r.sized(n.w, p)
		if end >= 0 && !r.text(n.s, text, rep) {
			return r.misfit(n, strconv.Quote(string(text[:min(len(text), 40)])))
		}
		return end
	case avroDecimal, avroDecimalText, avroUUIDText, avroDuration:
		return r.logical(n, p, rep)
	case avroJSON:
		vec, leaf := r.at(n.s)
		if vec.Data, p = r.appendJSON(vec.Data, n.w, p); p >= 0 {
			vec.seal()
			vec.level(leaf, n.s.def, rep)
		}
		return p
	case avroHash:
		text, end := r.plainText(n.w, p)
		if end >= 0 {
			r.digest(n.s, text, rep)
		}
		return end
	case avroTime:
		return r.time(n, p)
	default:
		return r.misfit(n, "")
	}
}

func (r *avroReader) nulls(sinks []*sink, rep, def int16) {
	for _, s := range sinks {
		r.null(s, rep, def)
	}
}

func (r *avroReader) record(n *avroNode, p int, rep int16) int {
	for _, kid := range n.kids {
		if p = r.value(kid, p, rep); p < 0 {
			return p
		}
	}
	for i := range n.defaults {
		d := &n.defaults[i]
		b := r.b
		r.b = d.value
		end := r.value(d.node, 0, rep)
		if r.b = b; end < 0 {
			return end
		}
	}
	if n.s != nil {
		r.nulls(n.lacks, rep, n.s.def)
	}
	return p
}

func (r *avroReader) array(n *avroNode, p int, rep int16) int {
	some := false
	for {
		count, at := r.block(p)
		if p = at; p < 0 {
			return p
		}
		if count == 0 {
			break
		}
		for some = true; count > 0; count-- {
			if p = r.item(p, r.value(n.elem, p, rep)); p < 0 {
				return p
			}
			rep = n.s.rep
		}
	}
	if !some {
		r.null(n.s, rep, n.s.def)
	}
	return p
}

func (r *avroReader) floating(n *avroNode, p int, rep int16) int {
	v, end := r.double(n.w, p)
	if end < 0 {
		return end
	}
	vec, leaf := r.at(n.s)
	switch n.code {
	case avroFloat:
		vec.Floats = append(vec.Floats, float32(v))
	case avroFloatEpoch:
		r.digits = strconv.AppendFloat(r.digits[:0], v, 'f', -1, 64)
		if !r.epochText(n, r.digits, rep) {
			return r.misfit(n, string(r.digits))
		}
		return end
	default:
		vec.Doubles = append(vec.Doubles, v)
	}
	vec.level(leaf, n.s.def, rep)
	return end
}

func (r *avroReader) epochText(n *avroNode, text []byte, rep int16) bool {
	m, ok := epochTime(text, n.unit)
	return ok && r.moment(n.s, m, rep)
}

// moment adds an instant to a timestamp column.
func (r *avroReader) moment(s *sink, m moment, rep int16) bool {
	v, ok := m.in(s.t.Unit)
	if ok {
		r.int64(s, v, rep)
	}
	return ok
}

// converted reads an integer into a column of another type.
func (r *avroReader) converted(n *avroNode, p int, rep int16) int {
	v, end := r.integer(n.w, p)
	if end < 0 {
		return end
	}
	ok := false
	switch n.code {
	case avroIntDouble:
		r.digits = strconv.AppendInt(r.digits[:0], v, 10)
		ok = r.float(n.s, r.digits, rep)
	case avroIntDecimal:
		r.digits = strconv.AppendInt(r.digits[:0], v, 10)
		ok = r.decimal(n.s, r.digits, rep)
	default:
		var m moment
		if n.unit < 0 {
			return r.misfit(n, "without a unit")
		}
		if m, ok = epochUnits(v, n.unit); ok {
			ok = r.moment(n.s, m, rep)
		}
	}
	if !ok {
		return r.misfit(n, strconv.FormatInt(v, 10))
	}
	return end
}
