package arrow

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"sawlog/formats"
)

// builder makes arrays of a batch of columns, leaf by leaf in file order. The
// arrays may share the columns' memory.
//
// A value of a type at definition level def, below rep lists, has a slot in its
// array for every entry of its first leaf whose definition level is at least
// that of an element of the list around it (inList, 0 outside of lists) and whose
// repetition level is at most rep; the slot is null where the definition level
// is below def.
type builder struct {
	c    *formats.Columns
	next int // leaf
}

// place is where a value stands in the levels.
type place struct{ def, rep, inList int16 }

// element is the place of what is in a list; its values may be null.
func (p place) element() place { return place{def: p.def + 2, rep: p.rep + 1, inList: p.def + 1} }

// key is the place of a map's keys.
func (p place) key() place { return place{def: p.def + 1, rep: p.rep + 1, inList: p.def + 1} }

func (b *builder) array(t *formats.Type, dt arrow.DataType, p place) *array.Data {
	switch t.Kind {
	case formats.Struct:
		slots := b.slots(p)
		kids := make([]arrow.ArrayData, len(t.Fields))
		for i, f := range dt.(*arrow.StructType).Fields() {
			kids[i] = b.array(t.Fields[i].Type, f.Type, place{def: p.def + 1, rep: p.rep, inList: p.inList})
		}
		return slots.data(dt, kids)
	case formats.List:
		slots, offsets := b.lists(p)
		elem := b.array(t.Elem, dt.(*arrow.ListType).Elem(), p.element())
		return slots.data(dt, []arrow.ArrayData{elem}, offsets)
	case formats.Map:
		slots, offsets := b.lists(p)
		m := dt.(*arrow.MapType)
		keys := b.array(&formats.Type{Kind: formats.String}, m.KeyType(), p.key())
		items := b.array(t.Elem, m.ItemType(), p.element())
		entries := array.NewData(m.Elem(), keys.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{keys, items}, 0, 0)
		return slots.data(dt, []arrow.ArrayData{entries}, offsets)
	default:
		return b.leaf(dt, p)
	}
}

// slots are the validity of an array.
type slots struct {
	n, nulls int
	valid    []byte
}

func (s *slots) add(valid bool) {
	if s.n%8 == 0 {
		s.valid = append(s.valid, 0)
	}
	if valid {
		s.valid[s.n/8] |= 1 << (s.n % 8)
	} else {
		s.nulls++
	}
	s.n++
}

func (s *slots) data(dt arrow.DataType, kids []arrow.ArrayData, values ...*memory.Buffer) *array.Data {
	var valid *memory.Buffer
	if s.nulls > 0 {
		valid = memory.NewBufferBytes(s.valid)
	}
	return array.NewData(dt, s.n, append([]*memory.Buffer{valid}, values...), kids, s.nulls, 0)
}

// slots looks at the next leaf, and leaves it to be read.
func (b *builder) slots(p place) *slots {
	s := &slots{}
	v := b.c.Vector(b.next)
	for i, def := range v.Def {
		if def >= p.inList && (v.Rep == nil || v.Rep[i] <= p.rep) {
			s.add(def >= p.def)
		}
	}
	return s
}

// lists makes slots of lists, and where the elements of each begin and end.
func (b *builder) lists(p place) (*slots, *memory.Buffer) {
	s := &slots{}
	v := b.c.Vector(b.next)
	var offsets []int32
	count := int32(0)
	for i, def := range v.Def {
		if def >= p.inList && v.Rep[i] <= p.rep {
			s.add(def >= p.def)
			offsets = append(offsets, count)
		}
		if def > p.def && v.Rep[i] <= p.rep+1 {
			count++
		}
	}
	return s, int32Buffer(append(offsets, count))
}

func int32Buffer(v []int32) *memory.Buffer {
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(v))
}

// leaf makes the array of the next leaf.
func (b *builder) leaf(dt arrow.DataType, p place) *array.Data {
	l, v := &b.c.Leaves()[b.next], b.c.Vector(b.next)
	s := b.slots(p)
	if l.MaxDef == 0 {
		s = &slots{n: b.c.Rows()}
	}
	b.next++
	if l.Store == formats.StoreBytes {
		return s.data(dt, nil, int32Buffer(byteOffsets(s, v)), memory.NewBufferBytes(v.Data))
	}
	return s.data(dt, nil, memory.NewBufferBytes(fixed(l, v, s)))
}

// byteOffsets says where the values of slots begin and end; a null has no bytes.
func byteOffsets(s *slots, v *formats.Vector) []int32 {
	out := make([]int32, 1, s.n+1)
	value := 0
	for i := range s.n {
		end := out[i]
		if s.present(i) {
			end = int32(v.Ends[value])
			value++
		}
		out = append(out, end)
	}
	return out
}

// present says that slot i has a value.
func (s *slots) present(i int) bool { return s.nulls == 0 || bitutil.BitIsSet(s.valid, i) }

// fixed is the values of slots that all take the same room; nulls are zero.
func fixed(l *formats.Leaf, v *formats.Vector, s *slots) []byte {
	switch l.Store {
	case formats.StoreBool:
		out := make([]byte, (s.n+7)/8)
		value := 0
		for i := range s.n {
			if s.present(i) {
				if v.Bools[value] {
					out[i/8] |= 1 << (i % 8)
				}
				value++
			}
		}
		return out
	case formats.StoreFloat:
		return arrow.Float32Traits.CastToBytes(spread(s, v.Floats))
	case formats.StoreDouble:
		return arrow.Float64Traits.CastToBytes(spread(s, v.Doubles))
	case formats.StoreInt32:
		if l.Type.Kind == formats.Decimal {
			return wide(s, v.Int32s)
		}
		return arrow.Int32Traits.CastToBytes(spread(s, v.Int32s))
	case formats.StoreInt64:
		if l.Type.Kind == formats.Decimal {
			return wide(s, v.Int64s)
		}
		return arrow.Int64Traits.CastToBytes(spread(s, v.Int64s))
	}
	out := make([]byte, 0, 16*s.n)
	value := 0
	for i := range s.n {
		if !s.present(i) {
			out = append(out, make([]byte, 16)...)
			continue
		}
		out = append(out, v.Value(value)...)
		if value++; l.Type.Kind == formats.Decimal { // Arrow's are little-endian
			slices.Reverse(out[len(out)-16:])
		}
	}
	return out
}

// spread puts values into their slots.
func spread[T int32 | int64 | float32 | float64](s *slots, values []T) []T {
	if s.nulls == 0 {
		return values
	}
	out := make([]T, s.n)
	value := 0
	for i := range out {
		if s.present(i) {
			out[i] = values[value]
			value++
		}
	}
	return out
}

// wide makes decimals of 128 bits.
func wide[T int32 | int64](s *slots, values []T) []byte {
	out := make([]uint64, 0, 2*s.n)
	value := 0
	for i := range s.n {
		if !s.present(i) {
			out = append(out, 0, 0)
			continue
		}
		n := int64(values[value])
		value++
		out = append(out, uint64(n), uint64(n>>63))
	}
	return arrow.Uint64Traits.CastToBytes(out)
}
