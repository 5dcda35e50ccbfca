// Package parquet writes Columns as Parquet files and reads them back.
package parquet

import "io"

// Reader reads a file.
type Reader struct{}

// RowGroup describes one row group.
type RowGroup struct {
	Rows  int64
	Bytes int64 // decoded
}

// Open reads the footer of a file of size bytes.
func Open(r io.ReaderAt, size int64) (*Reader, error) { panic("unwritten") }

// Rows is the number of rows.
func (r *Reader) Rows() int64 { panic("unwritten") }

// Schema is the file's own schema as text.
func (r *Reader) Schema() string { panic("unwritten") }

// RowGroups lists the row groups.
func (r *Reader) RowGroups() []RowGroup { panic("unwritten") }

// Metadata is the key-value metadata of the file.
func (r *Reader) Metadata() map[string]string { panic("unwritten") }

// Columns are the names of the top-level columns.
func (r *Reader) Columns() []string { panic("unwritten") }

// Read calls fn for n rows from row from on (n < 0 = all) with the values of
// the chosen top-level columns (nil = all) as JSON texts, null included.
func (r *Reader) Read(columns []string, from, n int64, fn func(row [][]byte) error) error {
	panic("unwritten")
}
