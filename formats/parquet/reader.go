package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// Reader reads a file. It is for our own files and says what is wrong with
// damaged ones; it is no defence against files made to harm.
type Reader struct {
	file   *file.Reader
	groups []RowGroup
	nodes  []*node // top-level columns
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
	defer recovered(&err)
	groups, err := checkFooter(r, size)
	if err != nil {
		return nil, err
	}
	f, err := file.NewParquetReader(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	out = &Reader{file: f, groups: groups}
	root := f.MetaData().Schema.Root()
	leaf := 0
	for i := range root.NumFields() {
		n, err := newNode(root.Field(i), &leaf, 0, 0)
		if err != nil {
			return nil, fmt.Errorf("parquet: column %q: %w", root.Field(i).Name(), err)
		}
		out.nodes = append(out.nodes, n)
	}
	if leaf != f.MetaData().Schema.NumColumns() {
		return nil, fmt.Errorf("parquet: schema has %d leaves, found %d", f.MetaData().Schema.NumColumns(), leaf)
	}
	return out, nil
}

// checkFooter reads the footer with our own reader and refuses one whose
// numbers do not fit the file, before arrow allocates by them.
func checkFooter(r io.ReaderAt, size int64) ([]RowGroup, error) {
	if size < int64(2*len(magic)+4) {
		return nil, fmt.Errorf("parquet: %d bytes are too few for a file", size)
	}
	var tail [8]byte
	if _, err := r.ReadAt(tail[:], size-8); err != nil && err != io.EOF {
		return nil, fmt.Errorf("parquet: reading the footer: %w", err)
	}
	if string(tail[4:]) != magic {
		return nil, fmt.Errorf("parquet: the file does not end in %s: cut off or no Parquet file", magic)
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-8-int64(len(magic)) || n > maxFooter {
		return nil, fmt.Errorf("parquet: footer of %d bytes in a file of %d", n, size)
	}
	raw := make([]byte, n)
	if _, err := r.ReadAt(raw, size-8-n); err != nil && err != io.EOF {
		return nil, fmt.Errorf("parquet: reading the footer: %w", err)
	}
	footer, err := parseThrift(raw)
	if err != nil {
		return nil, fmt.Errorf("parquet: %w", err)
	}
	end := size - 8 - n
	var groups []RowGroup
	var rows int64
	if listed := footer.get(fileGroupsID); listed != nil {
		for i := range listed.list {
			g, err := checkGroup(&listed.list[i], end)
			if err != nil {
				return nil, fmt.Errorf("parquet: row group %d: %w", i, err)
			}
			groups = append(groups, g)
			rows += g.Rows
		}
	}
	if got := footer.int(fileRowsID); got != rows {
		return nil, fmt.Errorf("parquet: footer has %d rows, its row groups %d", got, rows)
	}
	return groups, nil
}

// checkGroup checks that the column chunks of a row group lie before end.
func checkGroup(group *tValue, end int64) (RowGroup, error) {
	g := RowGroup{Rows: group.int(groupRowsID), Bytes: group.int(groupBytesID)}
	columns := group.get(groupColumnsID)
	if columns == nil || g.Rows < 0 || g.Bytes < 0 {
		return g, errThrift
	}
	for i := range columns.list {
		column := columns.list[i].get(chunkMetadataID)
		if column == nil {
			return g, errThrift
		}
		first := column.int(columnDataPageID)
		if dict := column.int(columnDictPageID); dict > 0 {
			first = min(first, dict)
		}
		size := column.int(columnCompressedID)
		if first < int64(len(magic)) || size < 0 || first > end || size > end-first || column.int(columnUncompressedID) < 0 ||
			column.int(columnValuesID) < 0 {
			return g, fmt.Errorf("column %d lies outside the file", i)
		}
		g.CompressedBytes += size
	}
	return g, nil
}

// Rows is the number of rows.
func (r *Reader) Rows() int64 { return r.file.NumRows() }

// Schema is the file's own schema as text.
func (r *Reader) Schema() string {
	var b strings.Builder
	schema.PrintSchema(r.file.MetaData().Schema.Root(), &b, 2)
	return b.String()
}

// RowGroups lists the row groups.
func (r *Reader) RowGroups() []RowGroup { return slices.Clone(r.groups) }

// CreatedBy names the program that wrote the file.
func (r *Reader) CreatedBy() string { return r.file.MetaData().GetCreatedBy() }

// Metadata is the key-value metadata of the file.
func (r *Reader) Metadata() map[string]string {
	out := map[string]string{}
	for _, pair := range r.file.MetaData().KeyValueMetadata() {
		if pair.Value != nil {
			out[pair.Key] = *pair.Value
		}
	}
	return out
}

// Columns are the names of the top-level columns.
func (r *Reader) Columns() []string {
	names := make([]string, len(r.nodes))
	for i, n := range r.nodes {
		names[i] = n.name
	}
	return names
}

// Read calls fn for n rows from row from on (n < 0 = all) with the values of
// the chosen top-level columns (nil = all) as JSON texts, null included. The
// row's slices are valid during the call only.
func (r *Reader) Read(columns []string, from, n int64, fn func(row [][]byte) error) (err error) {
	defer recovered(&err)
	chosen := r.nodes
	if columns != nil {
		chosen = nil
		for _, name := range columns {
			at := slices.IndexFunc(r.nodes, func(n *node) bool { return n.name == name })
			if at < 0 {
				return fmt.Errorf("parquet: no column %q", name)
			}
			chosen = append(chosen, r.nodes[at])
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
	rg := r.file.RowGroup(group)
	cursors := make(map[int]*cursor)
	for _, n := range chosen {
		for leaf := n.lo; leaf < n.hi; leaf++ {
			column, err := rg.Column(leaf)
			if err != nil {
				return err
			}
			cursors[leaf] = &cursor{column: column, leaf: r.file.MetaData().Schema.Column(leaf)}
		}
	}
	row := make([][]byte, len(chosen))
	for at := int64(0); at < to; at++ {
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
