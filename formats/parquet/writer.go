package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"sawlog/formats"
)

// Profile is the number of the writer profile: everything about a file's bytes
// that is not in Options. A change of it changes the bytes of every file.
const Profile = 1

// Options are the settings of a file.
type Options struct {
	Codec         string // zstd | snappy | gzip | none; "" = zstd
	Level         int    // of zstd or gzip; 0 = the codec's default
	PageBytes     int64  // page limit; 0 = PageLimit of the schema
	DictBytes     int64  // dictionary limit; 0 = PageLimit of the schema
	RowGroupBytes int64  // decoded bytes; 0 = 64 MiB
	RowGroupRows  int    // 0 = 1 Mi rows
	Metadata      map[string]string
}

// PageLimit is the page and dictionary limit of a schema: 32 MiB shared by its
// columns, between 16 KiB and 1 MiB.
func PageLimit(s *formats.Schema) int64 {
	return min(max(32<<20/int64(max(len(s.Leaves()), 1)), 16<<10), 1<<20)
}

// chunkLevels is how many levels go to a column writer at a time; it looks at
// its page and dictionary limits after each.
const chunkLevels = 1024

// Writer writes one file. Its bytes are a function of the schema, the options
// and the batches, not of the machine or the run. Errors are sticky.
type Writer struct {
	o       Options
	leaves  []formats.Leaf
	sink    *stickySink
	file    *file.Writer
	group   file.BufferedRowGroupWriter // nil = none open
	columns []leafWriter
	groups  []groupFacts
	rows    int64 // of the open group
	bytes   int64
	err     error
}

// errClosed is the error of a Write after Close.
var errClosed = errors.New("parquet writer is closed")

// NewWriter starts a file on w, which is not closed by the Writer. If w is an
// io.ReaderAt too, Close reads the footer back from it.
func NewWriter(w io.Writer, s *formats.Schema, o Options) (out *Writer, err error) {
	defer recovered(&err)
	if err := s.Validate(); err != nil {
		return nil, err
	}
	limit := PageLimit(s)
	o.PageBytes, o.DictBytes = orDefault(o.PageBytes, limit), orDefault(o.DictBytes, limit)
	o.RowGroupBytes = orDefault(o.RowGroupBytes, 64<<20)
	o.RowGroupRows = int(orDefault(int64(o.RowGroupRows), 1<<20))
	codec, level, err := codecOf(o.Codec, o.Level)
	if err != nil {
		return nil, err
	}
	root, err := fileSchema(s)
	if err != nil {
		return nil, err
	}
	props := parquet.NewWriterProperties(
		parquet.WithAllocator(allocator),
		parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithDictionaryDefault(true),
		parquet.WithDictionaryFor("_offset", false), // every value is new
		parquet.WithDictionaryPageSizeLimit(o.DictBytes),
		parquet.WithDataPageSize(o.PageBytes),
		parquet.WithBatchSize(1<<30), // Writer cuts the chunks, at rows
		parquet.WithStats(false),     // Writer makes them
		parquet.WithCreatedBy(createdBy),
		parquet.WithCompression(codec),
		parquet.WithCompressionLevel(level),
	)
	sink := &stickySink{w: w}
	leaves := s.Leaves()
	out = &Writer{o: o, leaves: leaves, sink: sink, columns: make([]leafWriter, len(leaves))}
	if out.file, err = newFile(sink, root, props); err != nil {
		return nil, err
	}
	for i := range leaves {
		out.columns[i].leaf = &leaves[i]
	}
	return out, nil
}

// newFile starts arrow's writer, which panics when its first write fails.
func newFile(sink *stickySink, root *schema.GroupNode, props *parquet.WriterProperties) (w *file.Writer, err error) {
	defer func() {
		if err = errors.Join(sink.err, err); err != nil {
			err = fmt.Errorf("parquet: starting the file: %w", err)
		}
	}()
	defer recovered(&err)
	return file.NewParquetWriter(sink, root, file.WithWriterProps(props)), nil
}

func orDefault(v, otherwise int64) int64 {
	if v > 0 {
		return v
	}
	return otherwise
}

// codecOf checks a codec and its level.
func codecOf(name string, level int) (compress.Compression, int, error) {
	if level == 0 {
		level = compress.DefaultCompressionLevel
	}
	switch name {
	case "", "zstd":
		if level != compress.DefaultCompressionLevel && (level < 1 || level > 22) {
			return 0, 0, fmt.Errorf("zstd level %d is outside 1..22", level)
		}
		return compress.Codecs.Zstd, level, nil
	case "gzip":
		if level != compress.DefaultCompressionLevel && (level < 1 || level > 9) {
			return 0, 0, fmt.Errorf("gzip level %d is outside 1..9", level)
		}
		return compress.Codecs.Gzip, level, nil
	case "snappy", "none":
		if level != compress.DefaultCompressionLevel {
			return 0, 0, fmt.Errorf("codec %s has no levels", name)
		}
		if name == "none" {
			return compress.Codecs.Uncompressed, level, nil
		}
		return compress.Codecs.Snappy, level, nil
	}
	return 0, 0, fmt.Errorf("codec %q is none of zstd, snappy, gzip, none", name)
}

// recovered turns a panic of arrow into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("parquet: %v", r)
	}
}

// Write adds the rows of c as one batch; c may be used again at once. The row
// group ends after the batch that fills it.
func (w *Writer) Write(c *formats.Columns) error {
	if w.err == nil {
		w.err = w.write(c)
	}
	return w.err
}

func (w *Writer) write(c *formats.Columns) (err error) {
	defer recovered(&err)
	if c.Rows() == 0 {
		return nil
	}
	if len(c.Leaves()) != len(w.leaves) {
		return fmt.Errorf("parquet: batch has %d leaves, the file %d", len(c.Leaves()), len(w.leaves))
	}
	if w.group == nil {
		w.group = w.file.AppendBufferedRowGroup()
		for i := range w.columns {
			if w.columns[i].to, err = w.group.Column(i); err != nil {
				return err
			}
			w.columns[i].stats.reset()
		}
	}
	for i := range w.columns {
		v := c.Vector(i)
		w.columns[i].stats.add(&w.leaves[i], v)
		if err := w.columns[i].write(v, int(w.o.PageBytes)); err != nil {
			return fmt.Errorf("parquet: column %q: %w", w.leaves[i].Path, err)
		}
	}
	w.rows += int64(c.Rows())
	w.bytes += c.Bytes()
	if w.rows >= int64(w.o.RowGroupRows) || w.bytes >= w.o.RowGroupBytes {
		return w.endGroup()
	}
	return w.sink.err
}

// endGroup closes the open row group.
func (w *Writer) endGroup() error {
	if w.group == nil {
		return w.sink.err
	}
	err := w.group.Close()
	w.group = nil
	if err = errors.Join(w.sink.err, err); err != nil {
		return err
	}
	facts := groupFacts{rows: w.rows}
	for i := range w.columns {
		s := &w.columns[i].stats
		facts.stats = append(facts.stats, s.thrift(&w.leaves[i]))
		facts.level = append(facts.level, s.levels)
		w.columns[i].to = nil
	}
	w.groups = append(w.groups, facts)
	w.rows, w.bytes = 0, 0
	return nil
}

// Close ends the file, checks its footer and gives the first error there was.
func (w *Writer) Close() error {
	if w.err == nil {
		w.err = w.close()
	}
	if w.err != nil {
		return w.err
	}
	w.err = errClosed
	return nil
}

func (w *Writer) close() (err error) {
	defer recovered(&err)
	if err := w.endGroup(); err != nil {
		return err
	}
	end := w.sink.n
	w.sink.held = new(bytes.Buffer)
	if err := errors.Join(w.file.Close(), w.sink.err); err != nil {
		return err
	}
	raw, err := cutTail(w.sink.held.Bytes())
	if err != nil {
		return err
	}
	w.sink.held = nil
	footer, err := mendFooter(raw, w.groups, w.o.Metadata, end)
	if err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	footer = append(footer, magic...)
	if _, err := w.sink.Write(footer); err != nil {
		return err
	}
	if r, ok := w.sink.w.(io.ReaderAt); ok {
		return w.readBack(r)
	}
	return nil
}

// readBack opens the file that was written and compares its row groups.
func (w *Writer) readBack(r io.ReaderAt) error {
	got, err := Open(r, w.sink.n)
	if err != nil {
		return fmt.Errorf("parquet: reading back: %w", err)
	}
	groups := got.RowGroups()
	if len(groups) != len(w.groups) {
		return fmt.Errorf("parquet: read back %d row groups, wrote %d", len(groups), len(w.groups))
	}
	for i := range groups {
		if groups[i].Rows != w.groups[i].rows {
			return fmt.Errorf("parquet: read back %d rows in row group %d, wrote %d", groups[i].Rows, i, w.groups[i].rows)
		}
	}
	return nil
}
