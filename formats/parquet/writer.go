package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/parquet/compress"

	"sawlog/formats"
)

// Profile is the number of the newest writer profile: everything about a file's
// bytes that is not in the other Options. Each profile keeps its bytes for ever.
const Profile = 3

// Options are the settings of a file.
type Options struct {
	Profile       int    // writer profile, 1 to 3; 0 = Profile
	Plain         bool   // values are PLAIN or in dictionaries, as older readers want them
	Codec         string // zstd | snappy | gzip | none; "" = zstd
	Level         int    // of zstd or gzip; 0 = the codec's default
	PageBytes     int64  // page limit; 0 = 32 MiB shared by the leaves, 16 KiB to 1 MiB
	DictBytes     int64  // dictionary limit; 0 = the same
	RowGroupBytes int64  // decoded bytes; 0 = 64 MiB
	RowGroupRows  int    // 0 = 1 Mi rows
	Metadata      map[string]string

	// HoldBytes is how many bytes of finished pages of the open row group are
	// kept in memory; more of them wait in a file that Scratch gives, once for
	// all files of the Writer, and whoever gave it closes. 0 = all are kept, as
	// they are under profile 1. The bytes of the file are the same.
	HoldBytes int64
	Scratch   func() (Scratch, error)
}

// pageLimit is the page and dictionary limit of a file where none is given:
// 32 MiB shared by its leaves, between 16 KiB and 1 MiB.
func pageLimit(leaves int) int64 {
	return min(max(32<<20/int64(max(leaves, 1)), 16<<10), 1<<20)
}

// chunkLevels is how many levels go to a column writer at a time; it looks at
// its page and dictionary limits after each.
const chunkLevels = 1024

// Writer writes one file. Its bytes are a function of the schema, the options
// and the batches, not of the machine or the run. Errors are sticky.
type Writer struct {
	o      Options
	schema *formats.Schema
	leaves []formats.Leaf
	codec  compress.Compression
	level  int
	sink   *stickySink
	enc    encoder
	open   bool // a row group
	stats  []leafStats
	groups []int64 // rows of those that are written
	rows   int64   // of the open group
	bytes  int64
	err    error
}

// encoder makes the bytes of a file under one writer profile.
type encoder interface {
	// begin starts a row group; the statistics are its own.
	begin(stats []leafStats) error
	// write takes a batch of one column.
	write(leaf int, v *formats.Vector) error
	// end ends the row group.
	end(rows int64) error
	// footer gives the footer; nothing follows it.
	footer(metadata map[string]string) ([]byte, error)
}

// errClosed is the error of a Write after Close.
var errClosed = errors.New("parquet writer is closed")

// NewWriter starts a file on w, which is not closed by the Writer. If w is an
// io.ReaderAt too, Close reads the footer back from it.
func NewWriter(w io.Writer, s *formats.Schema, o Options) (out *Writer, err error) {
	defer formats.Recovered("parquet", &err)
	if err := s.Validate(); err != nil {
		return nil, err
	}
	leaves := s.Leaves()
	limit := pageLimit(len(leaves))
	o.PageBytes, o.DictBytes = orDefault(o.PageBytes, limit), orDefault(o.DictBytes, limit)
	o.RowGroupBytes = orDefault(o.RowGroupBytes, 64<<20)
	o.RowGroupRows = int(orDefault(int64(o.RowGroupRows), 1<<20))
	o.Profile = int(orDefault(int64(o.Profile), Profile))
	codec, level, err := codecOf(o.Codec, o.Level)
	if err != nil {
		return nil, err
	}
	out = &Writer{o: o, schema: s, leaves: leaves, codec: codec, level: level, stats: make([]leafStats, len(leaves))}
	if err := out.start(w); err != nil {
		return nil, err
	}
	return out, nil
}

// start begins a file.
func (w *Writer) start(to io.Writer) (err error) {
	w.sink = &stickySink{Output: formats.Output{To: to}}
	switch w.o.Profile {
	case 1:
		w.enc, err = newArrowFile(w.sink, w.schema, w.leaves, &w.o, w.codec, w.level)
	case 2, 3:
		own, ok := w.enc.(*ownFile)
		if !ok {
			if own, err = newOwnFile(w.schema, w.leaves, &w.o, w.codec, w.level); err != nil {
				return err
			}
			w.enc = own
		}
		err = own.start(w.sink)
	default:
		err = fmt.Errorf("writer profile %d is not known, the newest is %d", w.o.Profile, Profile)
	}
	return err
}

// Restart begins another file of the same schema and options, whatever became
// of the one before. It keeps the memory and makes the bytes NewWriter makes.
func (w *Writer) Restart(to io.Writer) (err error) {
	defer func() { w.err = err }()
	defer formats.Recovered("parquet", &err)
	w.open, w.groups, w.rows, w.bytes = false, w.groups[:0], 0, 0
	return w.start(to)
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

// Write adds the rows of c as one batch; c may be used again at once. The row
// group ends after the batch that fills it.
func (w *Writer) Write(c *formats.Columns) error {
	if w.err == nil {
		w.err = w.write(c)
	}
	return w.err
}

func (w *Writer) write(c *formats.Columns) (err error) {
	defer formats.Recovered("parquet", &err)
	if c.Rows() == 0 {
		return nil
	}
	if len(c.Leaves()) != len(w.leaves) {
		return fmt.Errorf("parquet: batch has %d leaves, the file %d", len(c.Leaves()), len(w.leaves))
	}
	if !w.open {
		for i := range w.stats {
			w.stats[i].reset()
		}
		if err := w.enc.begin(w.stats); err != nil {
			return err
		}
		w.open = true
	}
	for i := range w.leaves {
		if err := w.enc.write(i, c.Vector(i)); err != nil {
			return fmt.Errorf("parquet: column %q: %w", w.leaves[i].Path, err)
		}
	}
	w.rows += int64(c.Rows())
	w.bytes += c.Bytes()
	if w.rows >= int64(w.o.RowGroupRows) || w.bytes >= w.o.RowGroupBytes {
		return w.endGroup()
	}
	return w.sink.Err
}

// endGroup closes the open row group.
func (w *Writer) endGroup() error {
	if !w.open {
		return w.sink.Err
	}
	w.open = false
	if err := errors.Join(w.enc.end(w.rows), w.sink.Err); err != nil {
		return err
	}
	w.groups = append(w.groups, w.rows)
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
	defer formats.Recovered("parquet", &err)
	if err := w.endGroup(); err != nil {
		return err
	}
	footer, err := w.enc.footer(w.o.Metadata)
	if err != nil {
		return err
	}
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	footer = append(footer, magic...)
	if _, err := w.sink.Write(footer); err != nil {
		return err
	}
	if r, ok := w.sink.To.(io.ReaderAt); ok {
		return w.readBack(r)
	}
	return nil
}

// readBack opens the file that was written and compares its row groups.
func (w *Writer) readBack(r io.ReaderAt) error {
	got, err := Open(r, w.sink.Bytes)
	if err != nil {
		return fmt.Errorf("parquet: reading back: %w", err)
	}
	groups := got.RowGroups()
	if len(groups) != len(w.groups) {
		return fmt.Errorf("parquet: read back %d row groups, wrote %d", len(groups), len(w.groups))
	}
	for i := range groups {
		if groups[i].Rows != w.groups[i] {
			return fmt.Errorf("parquet: read back %d rows in row group %d, wrote %d", groups[i].Rows, i, w.groups[i])
		}
	}
	return nil
}
