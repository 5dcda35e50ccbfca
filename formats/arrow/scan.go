package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"sawlog/formats"
)

// Scan gives the rows of a file one by one, as columns of another schema: that
// of the file, or one with wider types and more columns (formats.Widens). It
// holds one batch of the file.
type Scan struct {
	file    *Reader
	columns []*part
	from    []int // column of the file; -1 = it has none
	batch   arrow.Record
	next    int    // batch
	at      int    // row of the batch
	row     int64  // given so far
	plain   []byte // scratch
	wide    []byte // scratch
}

// part is a part of the wanted schema, and what the file has of it.
type part struct {
	*formats.Node
	from  *formats.Type // nil = the file has none
	widen formats.Widener
	kids  []*part
	at    []int // of a struct: the member of the file each kid is; -1 = it has none
}

// Scan begins to read the file as columns of a schema.
func (r *Reader) Scan(s *formats.Schema) (*Scan, error) {
	out := &Scan{file: r}
	known := map[string]int{}
	for i, name := range r.Columns() {
		known[name] = i
	}
	for _, n := range s.Tree() {
		at, has := known[n.Name]
		delete(known, n.Name)
		var from *formats.Type
		if has {
			from = r.types[at]
		} else if at = -1; n.Def == 0 {
			return nil, fmt.Errorf("arrow: column %q is in every row and the file has none", n.Name)
		}
		p, err := match(n, from)
		if err != nil {
			return nil, fmt.Errorf("arrow: column %q: %w", n.Name, err)
		}
		out.columns, out.from = append(out.columns, p), append(out.from, at)
	}
	for name := range known {
		return nil, fmt.Errorf("arrow: the file has a column %q and the schema has none", name)
	}
	return out, nil
}

func match(n *formats.Node, from *formats.Type) (*part, error) {
	p := &part{Node: n, from: from}
	if from == nil {
		return p, nil
	}
	add := func(kid *formats.Node, from *formats.Type) error {
		k, err := match(kid, from)
		p.kids = append(p.kids, k)
		return err
	}
	nested := func(t *formats.Type) bool {
		return t.Kind == formats.Struct || t.Kind == formats.List || t.Kind == formats.Map
	}
	if n.Type.Kind != from.Kind && (nested(n.Type) || nested(from)) {
		return nil, fmt.Errorf("is %s in the file, want %s", from, n.Type)
	}
	var err error
	switch n.Type.Kind {
	case formats.Struct:
		found := 0
		for _, kid := range n.Kids {
			at, t := -1, (*formats.Type)(nil)
			for i := range from.Fields {
				if from.Fields[i].Name == kid.Name {
					at, t = i, from.Fields[i].Type
				}
			}
			if p.at = append(p.at, at); at >= 0 {
				found++
			}
			err = errors.Join(err, add(kid, t))
		}
		if found < len(from.Fields) {
			err = errors.Join(err, fmt.Errorf("the file has %d members, the schema %d of them", len(from.Fields), found))
		}
	case formats.List:
		err = add(n.Kids[0], from.Elem)
	case formats.Map:
		err = errors.Join(add(n.Kids[0], n.Kids[0].Type), add(n.Kids[1], from.Elem))
	default:
		p.widen, err = formats.NewWidener(from, n.Type)
	}
	return p, err
}

// Next appends the next row to columns of the schema; io.EOF after the last.
// After an error the columns hold part of a row.
func (s *Scan) Next(c *formats.Columns) (err error) {
	defer formats.Recovered("arrow", &err)
	if err := s.open(); err != nil {
		return err
	}
	for i, p := range s.columns {
		var a arrow.Array
		if s.from[i] >= 0 {
			a = s.batch.Column(s.from[i])
		}
		if err := s.put(c, p, a, s.at, 0); err != nil {
			return fmt.Errorf("arrow: row %d, column %q: %w", s.row, p.Name, err)
		}
	}
	c.EndRow()
	s.at++
	s.row++
	return nil
}

// open makes sure that a batch with a row to give is open.
func (s *Scan) open() error {
	for s.batch == nil || s.at == int(s.batch.NumRows()) {
		if s.next == s.file.file.NumRecords() {
			return io.EOF
		}
		batch, err := s.file.file.RecordAt(s.next)
		if err != nil {
			return fmt.Errorf("arrow: batch %d: %w", s.next, err)
		}
		if s.batch != nil {
			s.batch.Release()
		}
		s.batch, s.at = batch, 0
		s.next++
	}
	return nil
}

// Head is the value the next row has in a top-level column that is no struct,
// list or map, in PLAIN encoding; nil where it is null, io.EOF after the last
// row.
func (s *Scan) Head(column string) (value []byte, err error) {
	defer formats.Recovered("arrow", &err)
	if err := s.open(); err != nil {
		return nil, err
	}
	for i, p := range s.columns {
		if p.Name != column || len(p.Kids) > 0 || s.from[i] < 0 {
			continue
		}
		a := s.batch.Column(s.from[i])
		if a.IsNull(s.at) {
			return nil, nil
		}
		value := appendPlain(nil, p.from, a, s.at)
		if p.widen != nil {
			return p.widen(nil, value)
		}
		return value, nil
	}
	return nil, fmt.Errorf("arrow: no column %q", column)
}

// put appends the entries value i of an array has in the leaves of a part.
func (s *Scan) put(c *formats.Columns, p *part, a arrow.Array, i int, rep int16) (err error) {
	if p.from == nil || a.IsNull(i) {
		if p.Def == 0 {
			return errors.New("is in every row and this one has none")
		}
		p.PutEmpty(c, p.Def-1, rep)
		return nil
	}
	switch a := a.(type) {
	case *array.Struct:
		for k, kid := range p.kids {
			var member arrow.Array
			if p.at[k] >= 0 {
				member = a.Field(p.at[k])
			}
			if err := s.put(c, kid, member, i, rep); err != nil {
				return err
			}
		}
		return nil
	case *array.Map:
		from, to := a.ValueOffsets(i)
		return s.entries(c, p, from, to, rep, a.Keys(), a.Items())
	case *array.List:
		from, to := a.ValueOffsets(i)
		return s.entries(c, p, from, to, rep, a.ListValues())
	}
	s.plain = appendPlain(s.plain[:0], p.from, a, i)
	value := s.plain
	if p.widen != nil {
		if s.wide, err = p.widen(s.wide[:0], value); err != nil {
			return err
		}
		value = s.wide
	}
	c.Put(p.Lo, p.Def, rep, value)
	return nil
}

// entries appends those of a list, or of keys and values.
func (s *Scan) entries(c *formats.Columns, p *part, from, to int64, rep int16, parts ...arrow.Array) error {
	if from == to {
		p.PutEmpty(c, p.Def, rep)
	}
	for k := from; k < to; k++ {
		for i, a := range parts {
			if err := s.put(c, p.kids[i], a, int(k), rep); err != nil {
				return err
			}
		}
		rep = p.Rep + 1
	}
	return nil
}

// appendPlain appends value i of an array of a type in PLAIN encoding.
func appendPlain(dst []byte, t *formats.Type, a arrow.Array, i int) []byte {
	little := binary.LittleEndian
	switch a := a.(type) {
	case *array.Boolean:
		if a.Value(i) {
			return append(dst, 1)
		}
		return append(dst, 0)
	case *array.Int32:
		return little.AppendUint32(dst, uint32(a.Value(i)))
	case *array.Date32:
		return little.AppendUint32(dst, uint32(a.Value(i)))
	case *array.Int64:
		return little.AppendUint64(dst, uint64(a.Value(i)))
	case *array.Timestamp:
		return little.AppendUint64(dst, uint64(a.Value(i)))
	case *array.Float32:
		return little.AppendUint32(dst, math.Float32bits(a.Value(i)))
	case *array.Float64:
		return little.AppendUint64(dst, math.Float64bits(a.Value(i)))
	case *array.String:
		return append(dst, a.Value(i)...)
	case *array.Binary:
		return append(dst, a.Value(i)...)
	case *array.FixedSizeBinary:
		return append(dst, a.Value(i)...)
	case *array.Decimal128:
		v := a.Value(i)
		switch t.Store() {
		case formats.StoreInt32:
			return little.AppendUint32(dst, uint32(v.LowBits()))
		case formats.StoreInt64:
			return little.AppendUint64(dst, v.LowBits())
		}
		dst = binary.BigEndian.AppendUint64(dst, uint64(v.HighBits()))
		return binary.BigEndian.AppendUint64(dst, v.LowBits())
	}
	return dst // typeOf refused the file
}
