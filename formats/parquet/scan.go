package parquet

import (
	"fmt"
	"io"

	"sawlog/formats"
)

// Scan gives the rows of a file one by one, as columns of another schema: that
// of the file, or one with wider types and more columns (formats.Widens). It
// holds one row group of the file, compressed as it is there, and a page of
// each column.
type Scan struct {
	file    *Reader
	leaves  []rowLeaf // of the wanted schema
	cursors []*cursor // of the row group, by the file's leaves
	group   int       // the next one
	left    int64     // rows of the open one
	row     int64     // given so far
	entries [][]entry // of the row at hand, by the file's leaves
	scratch []byte
}

// rowLeaf is where the entries of one leaf of the wanted schema come from.
type rowLeaf struct {
	from  int // leaf of the file; -1 = a top-level column the file lacks
	widen formats.Widener
	// Of a leaf the file lacks, below a struct, list or map it has: the entries
	// of leaf from, as far as the two have their levels in common.
	absent   bool
	def, rep int16
}

// Scan begins to read the file as columns of a schema.
func (r *Reader) Scan(s *formats.Schema) (*Scan, error) {
	out := &Scan{file: r, cursors: make([]*cursor, len(r.leaves)), entries: make([][]entry, len(r.leaves))}
	known := map[string]*node{}
	for _, n := range r.columns {
		known[n.name] = n
	}
	for i := range s.Fields {
		f := &s.Fields[i]
		n := known[f.Name]
		delete(known, f.Name)
		if n == nil && f.Required() {
			return nil, fmt.Errorf("parquet: column %q is in every row and the file has none", f.Name)
		}
		if err := out.match(f.Name, f.Type, n, nil); err != nil {
			return nil, err
		}
	}
	for name := range known {
		return nil, fmt.Errorf("parquet: the file has a column %q and the schema has none", name)
	}
	return out, nil
}

// match finds where the leaves of a type come from: n is the same part of the
// file, or nil where only the part above it is there.
func (r *Scan) match(name string, t *formats.Type, n, above *node) error {
	if n == nil {
		r.absent(t, above)
		return nil
	}
	found := 0
	sub := func(name string, t *formats.Type) error {
		for _, kid := range n.kids {
			if kid.name == name {
				found++
				return r.match(name, t, kid, n)
			}
		}
		return r.match(name, t, nil, n)
	}
	shapes := map[formats.Kind]shape{formats.Struct: shapeStruct, formats.List: shapeList, formats.Map: shapeMap}
	if n.shape != shapes[t.Kind] {
		return fmt.Errorf("parquet: column %q is %s in the file, want %s", name, n.t, t)
	}
	switch t.Kind {
	case formats.Struct:
		for i := range t.Fields {
			if err := sub(t.Fields[i].Name, t.Fields[i].Type); err != nil {
				return err
			}
		}
		if found < len(n.kids) {
			return fmt.Errorf("parquet: column %q: the file has %d members, the schema %d of them", name, len(n.kids), found)
		}
		return nil
	case formats.List:
		return r.match(name, t.Elem, n.kids[0], n)
	case formats.Map:
		r.leaves = append(r.leaves, rowLeaf{from: n.kids[0].lo})
		return r.match(name, t.Elem, n.kids[1], n)
	}
	widen, err := formats.NewWidener(n.t, t)
	if err == nil && widen != nil && n.physical != physicalOf(n.t.Store()) {
		err = fmt.Errorf("%s of physical type %d is not made wider", n.t, n.physical)
	}
	if err != nil {
		return fmt.Errorf("parquet: column %q: %w", name, err)
	}
	r.leaves = append(r.leaves, rowLeaf{from: n.lo, widen: widen})
	return nil
}

// absent gives every leaf of a type the file lacks the nulls it has there.
func (r *Scan) absent(t *formats.Type, above *node) {
	leaves := len((&formats.Schema{Fields: []formats.Field{{Name: "x", Type: t}}}).Leaves())
	for range leaves {
		leaf := rowLeaf{from: -1, absent: true}
		if above != nil {
			leaf.from, leaf.def, leaf.rep = above.lo, above.def, above.rep
		}
		r.leaves = append(r.leaves, leaf)
	}
}

// Next appends the next row to columns of the schema; io.EOF after the last.
// After an error the columns hold part of a row.
func (r *Scan) Next(c *formats.Columns) (err error) {
	defer formats.Recovered("parquet", &err)
	if err := r.open(); err != nil {
		return err
	}
	for i, cur := range r.cursors {
		if r.entries[i], err = cur.row(r.entries[i][:0]); err != nil {
			return fmt.Errorf("parquet: row %d, leaf %d: %w", r.row, i, err)
		}
	}
	for to := range r.leaves {
		if err := r.put(c, to); err != nil {
			return fmt.Errorf("parquet: row %d, column %q: %w", r.row, c.Leaves()[to].Path[0], err)
		}
	}
	c.EndRow()
	r.left--
	r.row++
	return nil
}

// open makes sure that a row group with a row to give is open.
func (r *Scan) open() error {
	for r.left == 0 {
		if r.group == len(r.file.groups) {
			return io.EOF
		}
		for leaf := range r.cursors {
			cur, err := r.file.cursor(r.group, leaf)
			if err != nil {
				return fmt.Errorf("parquet: row group %d: %w", r.group, err)
			}
			cur.raw = true
			r.cursors[leaf] = cur
		}
		r.left = r.file.groups[r.group].Rows
		r.group++
	}
	return nil
}

// put appends the entries the row at hand has for one leaf.
func (r *Scan) put(c *formats.Columns, to int) error {
	leaf := &r.leaves[to]
	if leaf.from < 0 {
		return nil // EndRow makes it null
	}
	for _, e := range r.entries[leaf.from] {
		if leaf.absent {
			if e.rep <= leaf.rep {
				c.Put(to, min(e.def, leaf.def), e.rep, nil)
			}
			continue
		}
		value := e.value
		if leaf.widen != nil && value != nil {
			var err error
			if r.scratch, err = leaf.widen(r.scratch[:0], value); err != nil {
				return err
			}
			value = r.scratch
		}
		c.Put(to, e.def, e.rep, value)
	}
	return nil
}

// Head is the value the next row has in a top-level column that is no struct,
// list or map, in PLAIN encoding; nil where it is null, io.EOF after the last
// row.
func (r *Scan) Head(column string) (value []byte, err error) {
	defer formats.Recovered("parquet", &err)
	if err := r.open(); err != nil {
		return nil, err
	}
	for _, n := range r.file.columns {
		if n.name != column || n.shape != shapeLeaf {
			continue
		}
		cur := r.cursors[n.lo]
		if err := cur.fill(); err != nil {
			return nil, fmt.Errorf("parquet: row %d, column %q: %w", r.row, column, err)
		}
		if cur.def[cur.at] < n.def {
			return nil, nil
		}
		if cur.value == len(cur.texts) {
			return nil, fmt.Errorf("parquet: row %d, column %q: %w", r.row, column, errShort)
		}
		return cur.texts[cur.value], nil
	}
	return nil, fmt.Errorf("parquet: no column %q", column)
}

// entry is one entry of a leaf; value is nil where it is null.
type entry struct {
	def, rep int16
	value    []byte
}

// row reads the entries of the next row.
func (c *cursor) row(dst []entry) ([]entry, error) {
	if err := c.fill(); err != nil {
		return dst, err
	}
	for first := true; ; first = false {
		more, err := c.more()
		if err != nil || !more || !first && c.rep[c.at] == 0 {
			return dst, err
		}
		e := entry{def: c.def[c.at], rep: c.rep[c.at]}
		c.at++
		if e.def == c.leaf.def {
			if c.value == len(c.texts) {
				return dst, errShort
			}
			if e.value = c.texts[c.value]; e.value == nil {
				e.value = []byte{}
			}
			c.value++
		}
		dst = append(dst, e)
	}
}
