package parquet

import (
	"fmt"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"

	"sawlog/formats"
)

// leafWriter writes one column of the open row group.
type leafWriter struct {
	leaf  *formats.Leaf
	to    file.ColumnChunkWriter
	bytes []parquet.ByteArray // scratch: headers of byte values
	fixed []parquet.FixedLenByteArray
}

// write gives a batch to the column in chunks of about chunkLevels levels, or
// pageBytes of byte values, that end where rows end.
func (w *leafWriter) write(v *formats.Vector, pageBytes int) error {
	total := len(v.Def)
	if w.leaf.MaxDef == 0 {
		total = valuesOf(w.leaf, v)
	}
	value := 0
	for from := 0; from < total; {
		to, end := chunkOf(w.leaf, v, from, total, value, pageBytes)
		var def, rep []int16
		if w.leaf.MaxDef > 0 {
			def = v.Def[from:to]
		}
		if w.leaf.MaxRep > 0 {
			rep = v.Rep[from:to]
		}
		if err := w.batch(v, value, end, def, rep); err != nil {
			return err
		}
		from, value = to, end
	}
	return nil
}

// valuesOf is how many values a leaf has in a batch.
func valuesOf(l *formats.Leaf, v *formats.Vector) int {
	switch l.Store {
	case formats.StoreBool:
		return len(v.Bools)
	case formats.StoreInt32:
		return len(v.Int32s)
	case formats.StoreInt64:
		return len(v.Int64s)
	case formats.StoreFloat:
		return len(v.Floats)
	case formats.StoreDouble:
		return len(v.Doubles)
	default:
		return len(v.Ends)
	}
}

// chunkOf finds the end of the chunk that starts at level from and value value.
func chunkOf(l *formats.Leaf, v *formats.Vector, from, total, value, pageBytes int) (to, end int) {
	byBytes := l.Store == formats.StoreBytes
	room := ^uint32(0)
	if byBytes {
		start := uint32(0)
		if value > 0 {
			start = v.Ends[value-1]
		}
		room = start + uint32(pageBytes)
	}
	end = value
	for to = from; to < total; to++ {
		if rowStart := l.MaxRep == 0 || v.Rep[to] == 0; rowStart && to > from &&
			(to-from >= chunkLevels || byBytes && end > value && v.Ends[end-1] >= room) {
			break
		}
		if l.MaxDef == 0 || v.Def[to] == l.MaxDef {
			end++
		}
	}
	return to, end
}

// batch gives values [from, to) and their levels to arrow.
func (w *leafWriter) batch(v *formats.Vector, from, to int, def, rep []int16) (err error) {
	switch c := w.to.(type) {
	case *file.BooleanColumnChunkWriter:
		_, err = c.WriteBatch(v.Bools[from:to], def, rep)
	case *file.Int32ColumnChunkWriter:
		_, err = c.WriteBatch(v.Int32s[from:to], def, rep)
	case *file.Int64ColumnChunkWriter:
		_, err = c.WriteBatch(v.Int64s[from:to], def, rep)
	case *file.Float32ColumnChunkWriter:
		_, err = c.WriteBatch(v.Floats[from:to], def, rep)
	case *file.Float64ColumnChunkWriter:
		_, err = c.WriteBatch(v.Doubles[from:to], def, rep)
	case *file.ByteArrayColumnChunkWriter:
		w.bytes = w.bytes[:0]
		for i := from; i < to; i++ {
			w.bytes = append(w.bytes, v.Value(i))
		}
		_, err = c.WriteBatch(w.bytes, def, rep)
	case *file.FixedLenByteArrayColumnChunkWriter:
		w.fixed = w.fixed[:0]
		for i := from; i < to; i++ {
			w.fixed = append(w.fixed, v.Value(i))
		}
		_, err = c.WriteBatch(w.fixed, def, rep)
	default:
		err = fmt.Errorf("no writer for %T", w.to)
	}
	return err
}
