package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"sawlog/formats"
	"sawlog/formats/arrow"
	"sawlog/formats/jsonl"
	"sawlog/formats/parquet"
)

// The formats of data files. Quarantine files are Parquet whatever the data is.
const (
	formatParquet = "parquet"
	formatArrow   = "arrow"
	formatJSONL   = "jsonl"
)

// Formats are the formats of data files, the default first.
func Formats() []string { return []string{formatParquet, formatArrow, formatJSONL} }

// Codecs are the codecs a format knows, the default first.
func Codecs(format string) []string {
	switch format {
	case formatArrow:
		return []string{"zstd", "lz4", "none"}
	case formatJSONL:
		return []string{"zstd", "gzip", "none"}
	}
	return []string{"zstd", "snappy", "gzip", "none"}
}

// CheckCodec refuses a codec or a level that a format does not have.
func CheckCodec(format, codec string, level int) error {
	known := Codecs(format)
	switch {
	case !slices.Contains(known, codec):
		return fmt.Errorf("codec %q: %s files take %s", codec, format, strings.Join(known, ", "))
	case level < 0 || level > 22:
		return fmt.Errorf("codec level %d: want 0..22", level)
	case level > 0 && (format == formatArrow || codec != "zstd" && codec != "gzip"):
		return fmt.Errorf("codec level %d: %s in %s files has no levels", level, codec, format)
	}
	return nil
}

// extension ends the names of data files, after a dot.
func (w *Writer) extension() string {
	if w.Format != formatJSONL {
		return w.Format
	}
	switch w.Codec {
	case "zstd":
		return "jsonl.zst"
	case "gzip":
		return "jsonl.gz"
	}
	return "jsonl"
}

// fileWriter writes one file, and after Restart another.
type fileWriter interface {
	Write(c *formats.Columns) error
	Close() error
	Restart(to io.Writer) error
}

// streamBytes is what a writer without row groups is taken to hold, in decoded
// bytes: one frame, and what compresses it.
const streamBytes = 2 << 20

// streams says that the file's writer keeps no more than a batch.
func (f *dataFile) streams() bool {
	return f.key != quarantineKey && f.t.plan.Writer.Format != formatParquet
}

// newWriter starts the file on to.
func (f *dataFile) newWriter(to io.Writer) (fileWriter, error) {
	w := &f.t.plan.Writer
	if f.streams() {
		switch w.Format {
		case formatArrow:
			return arrow.NewWriter(to, f.schema, arrow.Options{Codec: w.Codec})
		case formatJSONL:
			return jsonl.NewWriter(to, f.schema, jsonl.Options{Codec: w.Codec, Level: w.Level})
		}
		return nil, fail(ExitConflict, "plan asks for %s files, this binary writes %s", w.Format, strings.Join(Formats(), ", "))
	}
	if w.Encodings != "" && w.Encodings != EncodingsPlain {
		return nil, fail(ExitConflict, "plan asks for %s encodings, this binary knows all and %s", w.Encodings, EncodingsPlain)
	}
	o := parquet.Options{
		Profile: w.Profile, Plain: w.Encodings == EncodingsPlain, Codec: w.Codec, Level: w.Level, PageBytes: f.page, DictBytes: f.dict,
		RowGroupBytes: w.GroupBytes, RowGroupRows: w.GroupRows,
	}
	if w.Format != formatParquet {
		o.Codec, o.Level = "zstd", 0 // the plan's are of another format
	}
	if f.local != nil { // else it is smaller than a batch
		o.HoldBytes, o.Scratch = pagesHeld(f.t.memory), f.scratch
	}
	return parquet.NewWriter(to, f.schema, o)
}

// countRows reads how many rows a whole file has.
func countRows(r io.ReaderAt, size int64, file *File) (int64, error) {
	switch file.formatOf() {
	case formatArrow:
		return arrow.Count(r, size)
	case formatJSONL:
		return jsonl.Count(r, size)
	}
	f, err := parquet.Open(r, size)
	if err != nil {
		return 0, err
	}
	return f.Rows(), nil
}

// formatOf tells the format of a file by its name.
func (f *File) formatOf() string {
	if f.Hour == nil {
		return formatParquet
	}
	return formatOf(f.Path)
}

// formatOf is the format of a data file.
func formatOf(name string) string {
	base := path.Base(name)
	switch {
	case strings.HasSuffix(base, ".arrow"):
		return formatArrow
	case strings.HasSuffix(base, ".jsonl"), strings.HasSuffix(base, ".jsonl.zst"), strings.HasSuffix(base, ".jsonl.gz"):
		return formatJSONL
	}
	return formatParquet
}

// rowScan gives the rows of a file one by one, as columns of a schema: that of the
// file, or one with wider types and more columns. Next appends a row, and is
// io.EOF after the last; Head is what the next one has in a column, in PLAIN
// encoding.
type rowScan interface {
	Next(c *formats.Columns) error
	Head(column string) ([]byte, error)
}

// openScan begins to read a data file, whose bytes are known to be the ledger's.
func openScan(r io.ReaderAt, size int64, name string, s *formats.Schema) (rowScan, error) {
	switch formatOf(name) {
	case formatArrow:
		f, err := arrow.Open(r, size)
		if err != nil {
			return nil, err
		}
		return f.Scan(s)
	case formatJSONL:
		f, err := jsonl.Open(r, size)
		if err != nil {
			return nil, err
		}
		return f.Scan(s)
	}
	f, err := parquet.Open(r, size)
	if err != nil {
		return nil, err
	}
	return f.Scan(s)
}

// RowReader reads the rows of a file of any format.
type RowReader interface {
	// Columns are the names of the columns.
	Columns() []string
	// Read calls fn for n rows from row from on (n < 0 = all) with the values of
	// the chosen columns (nil = all) as JSON texts, valid during the call only.
	Read(columns []string, from, n int64, fn func(row [][]byte) error) error
}

// OpenRows opens a file of a data set for reading its rows. An Arrow file is
// held against its sha256 before: its reader believes what it finds.
func OpenRows(r io.ReaderAt, size int64, file *File) (RowReader, error) {
	switch file.formatOf() {
	case formatArrow:
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(r, 0, size)); err != nil {
			return nil, err
		}
		if have := hex.EncodeToString(h.Sum(nil)); have != file.SHA256 {
			return nil, fmt.Errorf("has sha256 %s, want %s", have, file.SHA256)
		}
		return arrow.Open(r, size)
	case formatJSONL:
		return jsonl.Open(r, size)
	}
	return parquet.Open(r, size)
}
