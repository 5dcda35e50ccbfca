package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"sawlog/formats"
)

// Reader reads a file. It shares no code with the writer's encoders and is
// safe against damaged files: arrow v15's reader hangs on some.
type Reader struct {
	file    io.ReaderAt
	footer  *tValue
	groups  []RowGroup
	columns []*node // top-level columns
	leaves  []*node
}

// RowGroup describes one row group.
type RowGroup struct {
	Rows            int64
	Bytes           int64 // encoded, before compression
	CompressedBytes int64
}

// maxFooter is the largest footer that is read.
const maxFooter = 256 << 20

// Open reads the footer of a file of size bytes.
func Open(r io.ReaderAt, size int64) (out *Reader, err error) {
	defer formats.Recovered("parquet", &err)
	footer, end, err := readFooter(r, size)
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	out = &Reader{file: r, footer: footer}
	elements := footer.get(fileSchemaID)
	if elements == nil {
		return nil, fmt.Errorf("parquet: %w: no schema", errThrift)
	}
	schema := schemaReader{elements: elements.list}
	if out.columns, err = schema.columns(); err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	out.leaves = schema.leaves
	var rows int64
	if listed := footer.get(fileGroupsID); listed != nil {
		for i := range listed.list {
			g, err := checkGroup(&listed.list[i], len(out.leaves), end)
			if err != nil {
				return nil, fmt.Errorf("parquet: row group %d: %w", i, err)
			}
			out.groups = append(out.groups, g)
			rows += g.Rows
		}
	}
	if got := footer.int(fileRowsID); got != rows {
		return nil, fmt.Errorf("parquet: footer has %d rows, its row groups %d", got, rows)
	}
	return out, nil
}

// readFooter reads the footer and says where the data before it ends.
func readFooter(r io.ReaderAt, size int64) (footer *tValue, end int64, err error) {
	if size < int64(2*len(magic)+4) {
		return nil, 0, fmt.Errorf("%d bytes are too few for a file", size)
	}
	var tail [8]byte
	if err := readAt(r, tail[:], size-8); err != nil {
		return nil, 0, err
	}
	if string(tail[4:]) != magic {
		return nil, 0, fmt.Errorf("the file does not end in %s: cut off or no Parquet file", magic)
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-8-int64(len(magic)) || n > maxFooter {
		return nil, 0, fmt.Errorf("footer of %d bytes in a file of %d", n, size)
	}
	raw := make([]byte, n)
	if err := readAt(r, raw, size-8-n); err != nil {
		return nil, 0, err
	}
	footer, err = parseThrift(raw)
	return footer, size - 8 - n, err
}

// readAt fills b from a position.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	return fmt.Errorf("reading %d bytes at %d: %w", len(b), at, err)
}

// checkGroup checks that the column chunks of a row group lie before end.
func checkGroup(group *tValue, leaves int, end int64) (RowGroup, error) {
	g := RowGroup{Rows: group.int(groupRowsID), Bytes: group.int(groupBytesID)}
	columns := group.get(groupColumnsID)
	if columns == nil || len(columns.list) != leaves || g.Rows < 0 || g.Bytes < 0 {
		return g, errThrift
	}
	for i := range columns.list {
		column := columns.list[i].get(chunkMetadataID)
		if column == nil {
			return g, errThrift
		}
		first, size := chunkBounds(column)
		if first < int64(len(magic)) || size < 0 || first > end || size > end-first || column.int(columnUncompressedID) < 0 ||
			column.int(columnValuesID) < 0 {
			return g, fmt.Errorf("column %d lies outside the file", i)
		}
		g.CompressedBytes += size
	}
	return g, nil
}

// Rows is the number of rows.
func (r *Reader) Rows() int64 { return r.footer.int(fileRowsID) }

// Schema is the file's schema as text: a line "name type" for each column.
func (r *Reader) Schema() string {
	var b strings.Builder
	for _, n := range r.columns {
		fmt.Fprintf(&b, "%s %s\n", n.name, n.t)
	}
	return b.String()
}

// RowGroups lists the row groups.
func (r *Reader) RowGroups() []RowGroup { return slices.Clone(r.groups) }

// Metadata is the key-value metadata of the file.
func (r *Reader) Metadata() map[string]string {
	out := map[string]string{}
	if pairs := r.footer.get(fileMetadataID); pairs != nil {
		for i := range pairs.list {
			if key, value := pairs.list[i].get(1), pairs.list[i].get(2); key != nil && value != nil {
				out[string(key.bytes)] = string(value.bytes)
			}
		}
	}
	return out
}

// Columns are the names of the top-level columns.
func (r *Reader) Columns() []string {
	names := make([]string, len(r.columns))
	for i, n := range r.columns {
		names[i] = n.name
	}
	return names
}

// Read calls fn for n rows from row from on (n < 0 = all) with the values of
// the chosen top-level columns (nil = all) as JSON texts, null included. The
// row's slices are valid during the call only.
func (r *Reader) Read(columns []string, from, n int64, fn func(row [][]byte) error) (err error) {
	defer formats.Recovered("parquet", &err)
	chosen := r.columns
	if columns != nil {
		chosen = nil
		for _, name := range columns {
			at := slices.IndexFunc(r.columns, func(n *node) bool { return n.name == name })
			if at < 0 {
				return fmt.Errorf("parquet: no column %q", name)
			}
			chosen = append(chosen, r.columns[at])
		}
	}
	if from < 0 {
		return fmt.Errorf("parquet: row %d does not exist", from)
	}
	end := r.Rows()
	if n >= 0 && n < end-from {
		end = from + n
	}
	first := int64(0)
	for i, g := range r.groups {
		if first+g.Rows > from && first < end {
			if err := r.readGroup(i, chosen, from-first, min(end-first, g.Rows), fn); err != nil {
				return fmt.Errorf("parquet: row group %d: %w", i, err)
			}
		}
		first += g.Rows
	}
	return nil
}

// readGroup reads rows [from, to) of a row group; from may be negative.
func (r *Reader) readGroup(group int, chosen []*node, from, to int64, fn func(row [][]byte) error) error {
	cursors := make([]*cursor, len(r.leaves))
	for _, n := range chosen {
		for leaf := n.lo; leaf < n.hi; leaf++ {
			var err error
			if cursors[leaf], err = r.cursor(group, leaf); err != nil {
				return err
			}
		}
	}
	row := make([][]byte, len(chosen))
	for at := range to {
		for i, n := range chosen {
			var err error
			if row[i], err = n.assemble(row[i][:0], cursors); err != nil {
				return fmt.Errorf("row %d, column %q: %w", at, n.name, err)
			}
		}
		if at >= from {
			if err := fn(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// cursor reads the chunk of a leaf in a row group.
func (r *Reader) cursor(group, leaf int) (*cursor, error) {
	column := r.footer.get(fileGroupsID).list[group].get(groupColumnsID).list[leaf].get(chunkMetadataID)
	c := &cursor{leaf: r.leaves[leaf], codec: column.int(columnCodecID), left: column.int(columnValuesID)}
	first, size := chunkBounds(column)
	c.data = make([]byte, size)
	return c, readAt(r.file, c.data, first)
}

// chunkBounds says where a column chunk starts and how long it is.
func chunkBounds(column *tValue) (first, size int64) {
	first = column.int(columnDataPageID)
	if dict := column.int(columnDictPageID); dict > 0 {
		first = min(first, dict)
	}
	return first, column.int(columnCompressedID)
}
