package formats

// Columns holds rows in columnar form: for each leaf of a schema its dense
// values and, as Parquet has them, definition and repetition levels.
type Columns struct {
	schema *Schema
	leaves []Leaf
	vecs   []Vector
	rows   int
}

// Vector is one leaf's part of Columns. Which slice holds the values follows
// from the leaf's Store; byte values lie end to end in Data.
type Vector struct {
	Bools   []bool
	Int32s  []int32
	Int64s  []int64
	Floats  []float32
	Doubles []float64
	Data    []byte
	Ends    []uint32 // the end of each byte value in Data
	Def     []int16  // nil when the leaf's MaxDef is 0
	Rep     []int16  // nil when the leaf's MaxRep is 0
	rows    int      // rows begun
}

// NewColumns returns empty columns of a schema.
func NewColumns(s *Schema) *Columns {
	leaves := s.Leaves()
	return &Columns{schema: s, leaves: leaves, vecs: make([]Vector, len(leaves))}
}

// Schema is the schema the columns were made for.
func (c *Columns) Schema() *Schema { return c.schema }

// Leaves are the schema's leaves, in file order.
func (c *Columns) Leaves() []Leaf { return c.leaves }

// Vector is the part of leaf i; it is valid until the columns change.
func (c *Columns) Vector(i int) *Vector { return &c.vecs[i] }

// Rows is the number of whole rows.
func (c *Columns) Rows() int { return c.rows }

// Bytes is the decoded size: value bytes, 4 for each byte value's length, and
// 2 for each level. Batches and row groups are cut by it, so it is part of the
// writer profile.
func (c *Columns) Bytes() int64 {
	var n int
	for i := range c.vecs {
		v := &c.vecs[i] // most of its slices are empty
		n += len(v.Bools) + 4*len(v.Int32s) + 8*len(v.Int64s) + 4*len(v.Floats) + 8*len(v.Doubles) +
			len(v.Data) + 4*len(v.Ends) + 2*(len(v.Def)+len(v.Rep))
	}
	return int64(n)
}

// Reset drops all rows and keeps the memory. No encoder of this project keeps
// a reference to a vector after its call, so memory may be used again at once.
func (c *Columns) Reset() {
	for i := range c.vecs {
		v := &c.vecs[i]
		v.Bools, v.Int32s, v.Int64s = v.Bools[:0], v.Int32s[:0], v.Int64s[:0]
		v.Floats, v.Doubles = v.Floats[:0], v.Doubles[:0]
		v.Data, v.Ends, v.Def, v.Rep = v.Data[:0], v.Ends[:0], v.Def[:0], v.Rep[:0]
		v.rows = 0
	}
	c.rows = 0
}

// Truncate drops every row from the given one on, whole or partly appended.
func (c *Columns) Truncate(rows int) {
	for i := range c.vecs {
		c.vecs[i].truncate(&c.leaves[i], rows)
	}
	c.rows = min(c.rows, rows)
}

func (v *Vector) truncate(l *Leaf, rows int) {
	if v.rows <= rows {
		v.Data = v.Data[:v.end()] // part of a value may lie there
		return
	}
	var drop int // values
	switch {
	case l.MaxDef == 0:
		drop = v.rows - rows
	default:
		at := len(v.Def)
		for v.rows > rows {
			at--
			if v.Def[at] == l.MaxDef {
				drop++
			}
			if l.MaxRep == 0 || v.Rep[at] == 0 {
				v.rows--
			}
		}
		v.Def = v.Def[:at]
		if l.MaxRep > 0 {
			v.Rep = v.Rep[:at]
		}
	}
	v.rows = rows
	switch l.Store {
	case StoreBool:
		v.Bools = v.Bools[:len(v.Bools)-drop]
	case StoreInt32:
		v.Int32s = v.Int32s[:len(v.Int32s)-drop]
	case StoreInt64:
		v.Int64s = v.Int64s[:len(v.Int64s)-drop]
	case StoreFloat:
		v.Floats = v.Floats[:len(v.Floats)-drop]
	case StoreDouble:
		v.Doubles = v.Doubles[:len(v.Doubles)-drop]
	case StoreBytes, StoreFixed16:
		v.Ends = v.Ends[:len(v.Ends)-drop]
		v.Data = v.Data[:v.end()]
	}
}

// end is where the next byte value starts in Data.
func (v *Vector) end() int {
	if n := len(v.Ends); n > 0 {
		return int(v.Ends[n-1])
	}
	return 0
}

// Value is byte value i.
func (v *Vector) Value(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = v.Ends[i-1]
	}
	return v.Data[start:v.Ends[i]]
}

// level appends one entry of levels; rep is 0 where a row begins.
func (v *Vector) level(l *Leaf, def, rep int16) {
	if l.MaxDef > 0 {
		v.Def = append(v.Def, def)
	}
	if l.MaxRep > 0 {
		v.Rep = append(v.Rep, rep)
	}
	if rep == 0 {
		v.rows++
	}
}

// seal ends the byte value that was appended to Data.
func (v *Vector) seal() { v.Ends = append(v.Ends, uint32(len(v.Data))) }

// endRow gives a null to every leaf the row has not reached and counts it.
func (c *Columns) endRow() {
	for i := range c.vecs {
		if v := &c.vecs[i]; v.rows == c.rows {
			v.level(&c.leaves[i], 0, 0)
		}
	}
	c.rows++
}
