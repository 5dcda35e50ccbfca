package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sawlog/formats"
)

// Options are the settings of a file.
type Options struct {
	Codec string // zstd | gzip | none; "" = zstd
	Level int    // of zstd, 1 to 22, or gzip, 1 to 9; 0 = the codec's default
}

// frameBytes is how many bytes of lines are compressed at a time.
const frameBytes = 1 << 20

// Writer writes one file. Errors are sticky.
type Writer struct {
	to      formats.Output
	leaves  []formats.Leaf
	columns []*node
	cursors []cursor
	pack    func(lines []byte) ([]byte, error)
	lines   []byte
	rows    int64
	err     error
}

// errClosed is the error of a Write after Close.
var errClosed = errors.New("jsonl: writer is closed")

// NewWriter starts a file on w, which is not closed by the Writer. If w is an
// io.ReaderAt too, Close reads the lines back from it.
func NewWriter(w io.Writer, s *formats.Schema, o Options) (*Writer, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	pack, err := packer(o)
	if err != nil {
		return nil, err
	}
	leaves := s.Leaves()
	return &Writer{to: formats.Output{To: w}, leaves: leaves, columns: nodes(s.Tree()), cursors: make([]cursor, len(leaves)), pack: pack}, nil
}

// packer compresses one frame after the other; a frame is valid until the next.
func packer(o Options) (func([]byte) ([]byte, error), error) {
	switch o.Codec {
	case "", "zstd":
		if o.Level < 0 || o.Level > 22 {
			return nil, fmt.Errorf("jsonl: zstd level %d is outside 1..22", o.Level)
		}
		level := zstd.SpeedDefault
		if o.Level > 0 {
			level = zstd.EncoderLevelFromZstd(o.Level)
		}
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(frameBytes))
		if err != nil {
			return nil, fmt.Errorf("jsonl: %w", err)
		}
		var out []byte
		return func(lines []byte) ([]byte, error) {
			out = z.EncodeAll(lines, out[:0])
			return out, nil
		}, nil
	case "gzip":
		level := gzip.DefaultCompression
		if o.Level > 0 {
			level = o.Level
		}
		var out bytes.Buffer
		z, err := gzip.NewWriterLevel(&out, level)
		if err != nil {
			return nil, fmt.Errorf("jsonl: %w", err)
		}
		return func(lines []byte) ([]byte, error) {
			out.Reset()
			z.Reset(&out)
			_, err := z.Write(lines)
			err = errors.Join(err, z.Close())
			return out.Bytes(), err
		}, nil
	case "none":
		return func(lines []byte) ([]byte, error) { return lines, nil }, nil
	}
	return nil, fmt.Errorf("jsonl: codec %q is none of zstd, gzip, none", o.Codec)
}

// Restart begins another file of the same schema and options, whatever became
// of the one before. It keeps the memory and makes the bytes NewWriter makes.
func (w *Writer) Restart(to io.Writer) error {
	w.to, w.lines, w.rows, w.err = formats.Output{To: to}, w.lines[:0], 0, nil
	return nil
}

// Write adds the rows of c; c may be used again at once.
func (w *Writer) Write(c *formats.Columns) error {
	if w.err == nil {
		w.err = w.write(c)
	}
	return w.err
}

func (w *Writer) write(c *formats.Columns) error {
	if len(c.Leaves()) != len(w.leaves) {
		return fmt.Errorf("jsonl: batch has %d leaves, the file %d", len(c.Leaves()), len(w.leaves))
	}
	for i := range w.cursors {
		w.cursors[i] = cursor{v: c.Vector(i), leaf: &w.leaves[i]}
	}
	for range c.Rows() {
		w.lines = append(appendObject(w.lines, w.columns, w.cursors), '\n')
		if len(w.lines) >= frameBytes {
			if err := w.frame(); err != nil {
				return err
			}
		}
	}
	clear(w.cursors) // the caller's memory
	w.rows += int64(c.Rows())
	return w.frame()
}

// frame ends the open frame.
func (w *Writer) frame() error {
	if len(w.lines) == 0 {
		return nil
	}
	packed, err := w.pack(w.lines)
	if err != nil {
		return fmt.Errorf("jsonl: %w", err)
	}
	_, err = w.to.Write(packed)
	if cap(w.lines) > 4*frameBytes { // a huge row: its room is not kept
		w.lines = nil
	}
	w.lines = w.lines[:0]
	return err
}

// Close ends the file, reads it back and gives the first error there was.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if r, ok := w.to.To.(io.ReaderAt); ok {
		rows, err := Count(r, w.to.Bytes)
		if err == nil && rows != w.rows {
			err = fmt.Errorf("jsonl: read back %d rows, wrote %d", rows, w.rows)
		}
		if err != nil {
			w.err = err
			return err
		}
	}
	w.err = errClosed
	return nil
}
