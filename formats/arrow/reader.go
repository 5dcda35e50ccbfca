package arrow

import (
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"sawlog/formats"
)

// Reader reads a file that is whole: arrow's reader believes every size it finds,
// so a damaged one can take all memory. What was cut off is refused.
type Reader struct {
	file   *ipc.FileReader
	schema *arrow.Schema
	types  []*formats.Type
}

// Open reads the footer of a file of size bytes.
func Open(r io.ReaderAt, size int64) (out *Reader, err error) {
	defer formats.Recovered("arrow", &err)
	file, err := ipc.NewFileReader(io.NewSectionReader(r, 0, size), ipc.WithAllocator(memory.NewGoAllocator()))
	if err != nil {
		return nil, fmt.Errorf("arrow: %w", err)
	}
	out = &Reader{file: file, schema: file.Schema()}
	for _, f := range out.schema.Fields() {
		t, err := typeOf(&f)
		if err != nil {
			return nil, err
		}
		out.types = append(out.types, t)
	}
	return out, nil
}

// Count reads every batch of a file and counts the rows.
func Count(r io.ReaderAt, size int64) (rows int64, err error) {
	file, err := Open(r, size)
	if err != nil {
		return 0, err
	}
	err = file.batches(func(batch arrow.Record) (bool, error) {
		rows += batch.NumRows()
		return true, nil
	})
	return rows, err
}

// batches calls fn for one batch after the other while it asks for more.
func (r *Reader) batches(fn func(batch arrow.Record) (more bool, err error)) (err error) {
	defer formats.Recovered("arrow", &err)
	for i := range r.file.NumRecords() {
		batch, err := r.file.RecordAt(i)
		if err != nil {
			return fmt.Errorf("arrow: batch %d: %w", i, err)
		}
		more, err := fn(batch)
		batch.Release()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// Columns are the names of the columns.
func (r *Reader) Columns() []string {
	var names []string
	for _, f := range r.schema.Fields() {
		names = append(names, f.Name)
	}
	return names
}

// Read calls fn for n rows from row from on (n < 0 = all) with the values of the
// chosen columns (nil = all) as JSON texts, null included. The row's slices are
// valid during the call only.
func (r *Reader) Read(columns []string, from, n int64, fn func(row [][]byte) error) error {
	if columns == nil {
		columns = r.Columns()
	}
	at := make([]int, len(columns))
	for i, name := range columns {
		if at[i] = slices.Index(r.Columns(), name); at[i] < 0 {
			return fmt.Errorf("arrow: no column %q", name)
		}
	}
	row := make([][]byte, len(columns))
	first := int64(0) // row of the batch
	return r.batches(func(batch arrow.Record) (bool, error) {
		start, end := max(from-first, 0), batch.NumRows()
		if n >= 0 {
			end = min(end, from+n-first)
		}
		first += batch.NumRows()
		for i := start; i < end; i++ {
			for k, column := range at {
				row[k] = appendValue(row[k][:0], r.types[column], batch.Column(column), int(i))
			}
			if err := fn(row); err != nil {
				return false, err
			}
		}
		return n < 0 || first < from+n, nil
	})
}

// appendValue appends value i of an array as JSON.
func appendValue(dst []byte, t *formats.Type, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(dst, "null"...)
	}
	switch a := a.(type) {
	case *array.Boolean:
		if a.Value(i) {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case *array.Int32:
		return t.AppendInt(dst, int64(a.Value(i)))
	case *array.Date32:
		return t.AppendInt(dst, int64(a.Value(i)))
	case *array.Int64:
		return t.AppendInt(dst, a.Value(i))
	case *array.Timestamp:
		return t.AppendInt(dst, int64(a.Value(i)))
	case *array.Float32:
		return t.AppendFloat(dst, float64(a.Value(i)))
	case *array.Float64:
		return t.AppendFloat(dst, a.Value(i))
	case *array.String:
		return t.AppendBytes(dst, []byte(a.Value(i)))
	case *array.Binary:
		return t.AppendBytes(dst, a.Value(i))
	case *array.FixedSizeBinary:
		return t.AppendBytes(dst, a.Value(i))
	case *array.Decimal128:
		v := a.Value(i)
		wide := make([]byte, 0, 16)
		for _, half := range [...]uint64{uint64(v.HighBits()), v.LowBits()} {
			for shift := 56; shift >= 0; shift -= 8 {
				wide = append(wide, byte(half>>shift))
			}
		}
		return t.AppendBytes(dst, wide)
	case *array.Struct:
		open := byte('{')
		for k := range t.Fields {
			dst = append(formats.AppendQuoted(append(dst, open), t.Fields[k].Name), ':')
			dst = appendValue(dst, t.Fields[k].Type, a.Field(k), i)
			open = ','
		}
		return append(dst, '}')
	case *array.Map:
		return appendEntries(dst, t, a, i)
	case *array.List:
		from, to := a.ValueOffsets(i)
		dst = append(dst, '[')
		for k := from; k < to; k++ {
			if k > from {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, t.Elem, a.ListValues(), int(k))
		}
		return append(dst, ']')
	}
	return append(dst, "null"...) // typeOf refused the file
}

// appendEntries appends a map as an object.
func appendEntries(dst []byte, t *formats.Type, a *array.Map, i int) []byte {
	from, to := a.ValueOffsets(i)
	keys := a.Keys().(*array.String)
	dst = append(dst, '{')
	for k := from; k < to; k++ {
		if k > from {
			dst = append(dst, ',')
		}
		dst = append(formats.AppendQuoted(dst, keys.Value(int(k))), ':')
		dst = appendValue(dst, t.Elem, a.Items(), int(k))
	}
	return append(dst, '}')
}
