package arrow

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"sawlog/formats"
)

// Options are the settings of a file.
type Options struct {
	Codec string // zstd | lz4 | none; "" = zstd
}

// Writer writes one file. Errors are sticky.
type Writer struct {
	o      Options
	fields []formats.Field
	schema *arrow.Schema
	leaves int
	sink   *sink
	file   *ipc.FileWriter
	rows   int64
	err    error
}

// errClosed is the error of a Write after Close.
var errClosed = errors.New("arrow: writer is closed")

// maxMaps is how many maps may lie in each other: arrow v15 makes the values of
// each twice, so the time doubles with every one.
const maxMaps = 8

// NewWriter starts a file on w, which is not closed by the Writer. If w is an
// io.ReaderAt too, Close reads the rows back from it.
func NewWriter(w io.Writer, s *formats.Schema, o Options) (*Writer, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	for i := range s.Fields {
		if n := maps(s.Fields[i].Type); n > maxMaps {
			return nil, fmt.Errorf("arrow: column %q has %d maps in each other, more than %d: declare an inner one as json", s.Fields[i].Name, n, maxMaps)
		}
	}
	switch o.Codec {
	case "":
		o.Codec = "zstd"
	case "zstd", "lz4", "none":
	default:
		return nil, fmt.Errorf("arrow: codec %q is none of zstd, lz4, none", o.Codec)
	}
	out := &Writer{o: o, fields: s.Fields, schema: fileSchema(s), leaves: len(s.Leaves())}
	return out, out.Restart(w)
}

// maps counts the maps that lie in each other.
func maps(t *formats.Type) int {
	switch t.Kind {
	case formats.List:
		return maps(t.Elem)
	case formats.Map:
		return 1 + maps(t.Elem)
	case formats.Struct:
		most := 0
		for i := range t.Fields {
			most = max(most, maps(t.Fields[i].Type))
		}
		return most
	}
	return 0
}

// Restart begins another file of the same schema and options, whatever became
// of the one before. It makes the bytes NewWriter makes.
func (w *Writer) Restart(to io.Writer) (err error) {
	defer func() { w.err = err }()
	defer formats.Recovered("arrow", &err)
	w.sink, w.rows = &sink{formats.Output{To: to}}, 0
	options := []ipc.Option{ipc.WithSchema(w.schema), ipc.WithAllocator(memory.NewGoAllocator()), ipc.WithCompressConcurrency(1)}
	switch w.o.Codec {
	case "zstd":
		options = append(options, ipc.WithZstd())
	case "lz4":
		options = append(options, ipc.WithLZ4())
	}
	w.file, err = ipc.NewFileWriter(w.sink, options...)
	return err
}

// Write adds the rows of c as one record batch; c may be used again at once.
func (w *Writer) Write(c *formats.Columns) error {
	if w.err == nil {
		w.err = w.write(c)
	}
	return w.err
}

func (w *Writer) write(c *formats.Columns) (err error) {
	defer formats.Recovered("arrow", &err)
	if c.Rows() == 0 {
		return nil
	}
	if len(c.Leaves()) != w.leaves {
		return fmt.Errorf("arrow: batch has %d leaves, the file %d", len(c.Leaves()), w.leaves)
	}
	b := builder{c: c}
	columns := make([]arrow.Array, len(w.fields))
	for i := range w.fields {
		p := place{def: 1}
		if w.fields[i].Required() {
			p.def = 0
		}
		columns[i] = array.MakeFromData(b.array(w.fields[i].Type, w.schema.Field(i).Type, p))
	}
	w.rows += int64(c.Rows())
	return errors.Join(w.file.Write(array.NewRecord(w.schema, columns, int64(c.Rows()))), w.sink.Err)
}

// Close ends the file, reads it back and gives the first error there was.
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
	defer formats.Recovered("arrow", &err)
	if err := errors.Join(w.file.Close(), w.sink.Err); err != nil {
		return err
	}
	r, ok := w.sink.To.(io.ReaderAt)
	if !ok {
		return nil
	}
	rows, err := Count(r, w.sink.Bytes)
	if err != nil {
		return fmt.Errorf("arrow: reading back: %w", err)
	}
	if rows != w.rows {
		return fmt.Errorf("arrow: read back %d rows, wrote %d", rows, w.rows)
	}
	return nil
}

// sink is the output of a file. The writer of arrow seeks only to learn where it is.
type sink struct{ formats.Output }

func (s *sink) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, errors.New("arrow: a file is written from its start to its end")
	}
	return s.Bytes, nil
}
