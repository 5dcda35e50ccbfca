package parquet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"

	"sawlog/formats"
)

// maxStat is the longest byte value kept as a bound; a column with a longer
// bound has none in that row group.
const maxStat = 1024

// leafStats are the statistics of one column in one row group. Arrow v15 keeps
// slices of the caller's memory in its own, writes distinct_count = 0 and is
// wrong for unsigned columns, so its statistics are off and these are written.
type leafStats struct {
	levels, nulls int64
	ints          [2]int64 // min, max; bools and 32-bit values too
	floats        [2]float64
	bytes         [2][]byte // copies
	have          bool      // a bound was seen
	nan           bool      // a NaN was seen
}

func (s *leafStats) reset() {
	*s = leafStats{bytes: [2][]byte{s.bytes[0][:0], s.bytes[1][:0]}}
}

// add takes a batch of the leaf.
func (s *leafStats) add(l *formats.Leaf, v *formats.Vector) {
	s.count(l, v)
	s.bound(l, v)
}

// count counts the levels and nulls of a batch.
func (s *leafStats) count(l *formats.Leaf, v *formats.Vector) {
	values := valuesOf(l, v)
	levels := values
	if l.MaxDef > 0 {
		levels = len(v.Def)
	}
	s.levels += int64(levels)
	s.nulls += int64(levels - values)
}

// bound widens the bounds by the values of a batch.
func (s *leafStats) bound(l *formats.Leaf, v *formats.Vector) {
	switch l.Store {
	case formats.StoreBool:
		for _, b := range v.Bools {
			n := int64(0)
			if b {
				n = 1
			}
			s.int(n, n)
		}
	case formats.StoreInt32:
		if len(v.Int32s) > 0 {
			lo, hi := bounds(v.Int32s)
			s.int(int64(lo), int64(hi))
		}
	case formats.StoreInt64:
		if len(v.Int64s) > 0 {
			s.int(bounds(v.Int64s))
		}
	case formats.StoreFloat:
		for _, f := range v.Floats {
			s.float(float64(f))
		}
	case formats.StoreDouble:
		for _, f := range v.Doubles {
			s.float(f)
		}
	default:
		s.addBytes(v, l.Type.Kind == formats.Decimal)
	}
}

func bounds[T cmp.Ordered](values []T) (lo, hi T) {
	lo, hi = values[0], values[0]
	for _, v := range values[1:] {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}

func (s *leafStats) int(lo, hi int64) {
	if !s.have {
		s.ints, s.have = [2]int64{lo, hi}, true
		return
	}
	s.ints[0], s.ints[1] = min(s.ints[0], lo), max(s.ints[1], hi)
}

// float notes a NaN: to some readers it is larger than all numbers, to others it
// has no place in the order, so that no bounds are right for all.
func (s *leafStats) float(f float64) {
	switch {
	case math.IsNaN(f):
		s.nan = true
	case !s.have:
		s.floats, s.have = [2]float64{f, f}, true
	case f < s.floats[0]:
		s.floats[0] = f
	case f > s.floats[1]:
		s.floats[1] = f
	}
}

// addBytes finds the bounds of a batch first and copies them once.
func (s *leafStats) addBytes(v *formats.Vector, signed bool) {
	n := len(v.Ends)
	if n == 0 {
		return
	}
	lo, hi := v.Value(0), v.Value(0)
	if s.have {
		lo, hi = s.bytes[0], s.bytes[1]
	}
	start := uint32(0)
	for _, end := range v.Ends {
		value := v.Data[start:end]
		start = end
		if less(value, lo, signed) {
			lo = value
		} else if less(hi, value, signed) {
			hi = value
		}
	}
	s.bytes[0] = append(s.bytes[0][:0], lo...)
	s.bytes[1] = append(s.bytes[1][:0], hi...)
	s.have = true
}

// less orders byte values as Parquet does: unsigned, but decimals by sign.
func less(a, b []byte, signed bool) bool {
	if signed && len(a) > 0 && len(b) > 0 && a[0]^b[0] >= 0x80 {
		return a[0] >= 0x80
	}
	return bytes.Compare(a, b) < 0
}

// thrift is the Statistics struct of the column.
func (s *leafStats) thrift(l *formats.Leaf) tValue {
	out := tValue{kind: tStruct}
	out.set(3, tInt(tI64, s.nulls))
	if !s.have || s.nan {
		return out
	}
	lo, hi := s.plain(l, 0), s.plain(l, 1)
	if len(lo) > maxStat || len(hi) > maxStat {
		return out
	}
	out.set(5, tBytes(hi))
	out.set(6, tBytes(lo))
	out.set(7, tBool(true))
	out.set(8, tBool(true))
	return out
}

// plain is bound i in PLAIN encoding. A zero is written so that -0 and +0 both
// lie within the bounds.
func (s *leafStats) plain(l *formats.Leaf, i int) []byte {
	f := s.floats[i]
	if f == 0 {
		f = math.Copysign(0, float64(2*i-1))
	}
	switch l.Store {
	case formats.StoreBool:
		return []byte{byte(s.ints[i])}
	case formats.StoreInt32:
		return binary.LittleEndian.AppendUint32(nil, uint32(s.ints[i]))
	case formats.StoreInt64:
		return binary.LittleEndian.AppendUint64(nil, uint64(s.ints[i]))
	case formats.StoreFloat:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(f)))
	case formats.StoreDouble:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
	default:
		return bytes.Clone(s.bytes[i])
	}
}
