package formats

import (
	"encoding/binary"
	"errors"
	"math"
)

// RowCursor walks the rows of columns and gives each in a form that AddRow puts
// into other columns of the same schema. It is for rows on their way through a
// temporary file, and has no version. A row is, leaf by leaf:
//
//	repeated      uvarint: number of levels; for each a byte of definition level
//	              and a byte of repetition level
//	optional      a byte of definition level
//	values        as many as levels say are present: fixed-size ones
//	              little-endian, a boolean in a byte; bytes of any length after
//	              their length as a uvarint
//
// Levels are at most 2 × MaxDepth + 2, so a byte holds each.
type RowCursor struct {
	c  *Columns
	at []rowPlace
}

// rowPlace is where a row begins in a vector.
type rowPlace struct{ level, value int }

// Reset places the cursor before the first row of c.
func (r *RowCursor) Reset(c *Columns) {
	if len(r.at) != len(c.vecs) {
		r.at = make([]rowPlace, len(c.vecs))
	}
	r.c = c
	clear(r.at)
}

// Append appends the next row to dst; there must be one.
func (r *RowCursor) Append(dst []byte) []byte {
	for i := range r.c.vecs {
		dst = r.c.vecs[i].appendRow(dst, &r.c.leaves[i], &r.at[i])
	}
	return dst
}

func (v *Vector) appendRow(dst []byte, l *Leaf, at *rowPlace) []byte {
	values := 1
	switch {
	case l.MaxRep > 0:
		from := at.level
		for at.level++; at.level < len(v.Def) && v.Rep[at.level] != 0; at.level++ {
		}
		dst = binary.AppendUvarint(dst, uint64(at.level-from))
		values = 0
		for i := from; i < at.level; i++ {
			dst = append(dst, byte(v.Def[i]), byte(v.Rep[i]))
			if v.Def[i] == l.MaxDef {
				values++
			}
		}
	case l.MaxDef > 0:
		def := v.Def[at.level]
		at.level++
		if dst = append(dst, byte(def)); def != l.MaxDef {
			return dst
		}
	}
	from := at.value
	at.value += values
	return v.appendValues(dst, l.Store, from, at.value)
}

func (v *Vector) appendValues(dst []byte, store Store, from, to int) []byte {
	switch store {
	case StoreBool:
		for _, x := range v.Bools[from:to] {
			bit := byte(0)
			if x {
				bit = 1
			}
			dst = append(dst, bit)
		}
	case StoreInt32:
		for _, x := range v.Int32s[from:to] {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(x))
		}
	case StoreInt64:
		for _, x := range v.Int64s[from:to] {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(x))
		}
	case StoreFloat:
		for _, x := range v.Floats[from:to] {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
		}
	case StoreDouble:
		for _, x := range v.Doubles[from:to] {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
		}
	default:
		for i := from; i < to; i++ {
			value := v.Value(i)
			dst = append(binary.AppendUvarint(dst, uint64(len(value))), value...)
		}
	}
	return dst
}

var errNoRow = errors.New("these bytes are no row of the schema")

// AddRow adds a row that a RowCursor gave. After an error the columns are of no
// use.
func (c *Columns) AddRow(row []byte) error {
	ok := true
	for i := range c.vecs {
		if row, ok = c.vecs[i].addRow(row, &c.leaves[i]); !ok {
			return errNoRow
		}
	}
	if len(row) > 0 {
		return errNoRow
	}
	c.rows++
	return nil
}

func (v *Vector) addRow(b []byte, l *Leaf) (rest []byte, ok bool) {
	v.rows++
	values := 1
	switch {
	case l.MaxRep > 0:
		levels, n := binary.Uvarint(b)
		if n <= 0 || levels == 0 || levels > uint64(len(b)-n)/2 {
			return nil, false
		}
		values, b = 0, b[n:]
		for i := range int(levels) {
			def := int16(b[2*i])
			v.Def, v.Rep = append(v.Def, def), append(v.Rep, int16(b[2*i+1]))
			if def == l.MaxDef {
				values++
			}
		}
		b = b[2*levels:]
	case l.MaxDef > 0:
		if len(b) == 0 {
			return nil, false
		}
		def := int16(b[0])
		if v.Def, b = append(v.Def, def), b[1:]; def != l.MaxDef {
			return b, true
		}
	}
	return v.addValues(b, l.Store, values)
}

func (v *Vector) addValues(b []byte, store Store, values int) (rest []byte, ok bool) {
	width := 0
	switch store {
	case StoreBool:
		width = 1
	case StoreInt32, StoreFloat:
		width = 4
	case StoreInt64, StoreDouble:
		width = 8
	}
	if values*width > len(b) {
		return nil, false
	}
	for range values {
		switch store {
		case StoreBool:
			v.Bools = append(v.Bools, b[0] != 0)
		case StoreInt32:
			v.Int32s = append(v.Int32s, int32(binary.LittleEndian.Uint32(b)))
		case StoreInt64:
			v.Int64s = append(v.Int64s, int64(binary.LittleEndian.Uint64(b)))
		case StoreFloat:
			v.Floats = append(v.Floats, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case StoreDouble:
			v.Doubles = append(v.Doubles, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		default:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return nil, false
			}
			v.Data = append(v.Data, b[n:n+int(size)]...)
			v.seal()
			b = b[n+int(size):]
		}
		b = b[width:]
	}
	return b, true
}

// TakeLast moves the last row of other columns of the same schema to the end of
// c.
func (c *Columns) TakeLast(from *Columns) {
	for i := range c.vecs {
		c.vecs[i].takeLast(&from.vecs[i], &c.leaves[i])
	}
	c.rows++
	from.rows--
}

func (v *Vector) takeLast(from *Vector, l *Leaf) {
	values := 1
	if l.MaxDef > 0 {
		at := len(from.Def) - 1
		if l.MaxRep > 0 {
			for from.Rep[at] != 0 {
				at--
			}
			v.Rep, from.Rep = append(v.Rep, from.Rep[at:]...), from.Rep[:at]
		}
		values = 0
		for _, def := range from.Def[at:] {
			if def == l.MaxDef {
				values++
			}
		}
		v.Def, from.Def = append(v.Def, from.Def[at:]...), from.Def[:at]
	}
	v.rows++
	from.rows--
	switch l.Store {
	case StoreBool:
		v.Bools, from.Bools = takeTail(v.Bools, from.Bools, values)
	case StoreInt32:
		v.Int32s, from.Int32s = takeTail(v.Int32s, from.Int32s, values)
	case StoreInt64:
		v.Int64s, from.Int64s = takeTail(v.Int64s, from.Int64s, values)
	case StoreFloat:
		v.Floats, from.Floats = takeTail(v.Floats, from.Floats, values)
	case StoreDouble:
		v.Doubles, from.Doubles = takeTail(v.Doubles, from.Doubles, values)
	default:
		for i := len(from.Ends) - values; i < len(from.Ends); i++ {
			v.Data = append(v.Data, from.Value(i)...)
			v.seal()
		}
		from.Ends = from.Ends[:len(from.Ends)-values]
		from.Data = from.Data[:from.end()]
	}
}

// takeTail moves the last n elements.
func takeTail[T any](to, from []T, n int) (more, less []T) {
	at := len(from) - n
	return append(to, from[at:]...), from[:at]
}
