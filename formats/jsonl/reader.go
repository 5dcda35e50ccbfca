package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxLine is the longest line that is read.
const maxLine = 1 << 30

// Reader reads a file of lines.
type Reader struct {
	file    io.ReaderAt
	size    int64
	columns []string
}

// Open reads the first line of a file of size bytes, whose codec its first
// bytes tell.
func Open(r io.ReaderAt, size int64) (*Reader, error) {
	out := &Reader{file: r, size: size}
	err := lines(r, size, func(line []byte) error {
		err := members(line, func(name, _ []byte) error {
			var text string
			if err := json.Unmarshal(name, &text); err != nil {
				return err
			}
			out.columns = append(out.columns, text)
			return nil
		})
		if err != nil {
			return err
		}
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return out, nil
}

// errEnough ends reading early.
var errEnough = errors.New("enough was read")

// Count counts the rows of a file, each of which has to be one line of JSON.
func Count(r io.ReaderAt, size int64) (rows int64, err error) {
	err = lines(r, size, func(line []byte) error {
		if len(line) == 0 || line[0] != '{' || !json.Valid(line) {
			return fmt.Errorf("is no JSON object: %.60q", line)
		}
		rows++
		return nil
	})
	return rows, err
}

// Columns are the names of the columns, as the first line has them.
func (r *Reader) Columns() []string { return slices.Clone(r.columns) }

// Read calls fn for n rows from row from on (n < 0 = all) with the values of the
// chosen columns (nil = all) as JSON texts. The row's slices are valid during the
// call only.
func (r *Reader) Read(columns []string, from, n int64, fn func(row [][]byte) error) error {
	if columns == nil {
		columns = r.columns
	}
	at := make([]int, len(r.columns)) // where a column of the file goes; -1 = nowhere
	for i := range at {
		at[i] = -1
	}
	for i, name := range columns {
		k := slices.Index(r.columns, name)
		if k < 0 {
			return fmt.Errorf("jsonl: no column %q", name)
		}
		at[k] = i
	}
	row := make([][]byte, len(columns))
	var number int64
	err := lines(r.file, r.size, func(line []byte) error {
		if n >= 0 && number >= from+n {
			return errEnough
		}
		if number++; number <= from {
			return nil
		}
		k := 0
		err := members(line, func(_, value []byte) error {
			if k >= len(at) {
				return errors.New("has more columns than the first line")
			}
			if at[k] >= 0 {
				row[at[k]] = value
			}
			k++
			return nil
		})
		if err == nil && k < len(at) {
			err = errors.New("has fewer columns than the first line")
		}
		if err != nil {
			return err
		}
		return fn(row)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// lines calls fn for every line of a file.
func lines(r io.ReaderAt, size int64, fn func(line []byte) error) error {
	s, done, err := scanner(r, size)
	if err != nil {
		return err
	}
	defer done()
	var n int64
	for s.Scan() {
		n++
		if err := fn(s.Bytes()); err != nil {
			return fmt.Errorf("jsonl: line %d: %w", n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("jsonl: after line %d: %w", n, err)
	}
	return nil
}

// scanner gives the lines of a file; done gives up what unpacks them.
func scanner(r io.ReaderAt, size int64) (s *bufio.Scanner, done func(), err error) {
	in, done, err := unpack(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, nil, fmt.Errorf("jsonl: %w", err)
	}
	s = bufio.NewScanner(in)
	s.Buffer(make([]byte, 64<<10), maxLine)
	s.Split(wholeLines)
	return s, done, nil
}

// wholeLines splits lines and refuses a last one without its end: the file was
// cut off.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// unpack reads what is in the frames.
func unpack(r *io.SectionReader) (io.Reader, func(), error) {
	var magic [4]byte
	n, err := r.ReadAt(magic[:], 0)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	switch {
	case n == 4 && magic == [4]byte{0x28, 0xb5, 0x2f, 0xfd}:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	case n >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(bufio.NewReader(r))
		if err != nil {
			return nil, nil, err
		}
		return z, func() {}, nil
	}
	return r, func() {}, nil
}

// members calls fn for every member of an object, in order; name and value are
// JSON texts.
func members(line []byte, fn func(name, value []byte) error) error {
	if len(line) == 0 || line[0] != '{' || !json.Valid(line) {
		return fmt.Errorf("is no JSON object: %.60q", line)
	}
	return parts(line, func(part []byte) error {
		end := skipString(part, 0) + 1
		colon := end + bytes.IndexByte(part[end:], ':')
		return fn(part[:end], bytes.TrimSpace(part[colon+1:]))
	})
}

// elements calls fn for every element of an array, in order.
func elements(text []byte, fn func(value []byte) error) error {
	if len(text) == 0 || text[0] != '[' || !json.Valid(text) {
		return fmt.Errorf("is no JSON array: %.60q", text)
	}
	return parts(text, fn)
}

// parts calls fn for what stands between the commas of an object or an array,
// which is valid, so that only strings and depth matter.
func parts(text []byte, fn func(part []byte) error) error {
	start, depth := 1, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
		case ',':
			if depth > 1 {
				continue
			}
			if err := fn(bytes.TrimSpace(text[start:i])); err != nil {
				return err
			}
			start = i + 1
		case '}', ']':
			if depth--; depth > 0 {
				continue
			}
			if part := bytes.TrimSpace(text[start:i]); len(part) > 0 {
				return fn(part)
			}
			return nil
		}
	}
	return nil
}

// skipString finds the closing quote of a string.
func skipString(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
