package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sawlog/cmd/sawlog/output"
	"sawlog/offsets"
)

// openInput opens a file of records: '-' is standard input, .gz and .zst are
// unpacked. read is told of the bytes taken from it, as they stand there.
func openInput(name string, stdin io.Reader, read func(int)) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(counting{stdin, read}), nil
	}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, notThere(err)
	}
	if err != nil {
		return nil, err
	}
	var unpacked io.Reader
	switch {
	case strings.HasSuffix(name, ".gz"):
		unpacked, err = gzip.NewReader(counting{f, read})
	case strings.HasSuffix(name, ".zst"):
		var z *zstd.Decoder
		z, err = zstd.NewReader(counting{f, read})
		unpacked = z
	default:
		unpacked = counting{f, read}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return &unpackedFile{unpacked, f}, nil
}

// notThere is the error of a file that is not there.
func notThere(err error) *output.Error {
	e := &output.Error{Code: output.NotFound, Err: err, Hint: "is the path right?"}
	if dir, err := os.Getwd(); err == nil {
		e.Hint = "is the path right? It counts from " + dir
	}
	return e
}

// counting tells of the bytes that are read.
type counting struct {
	io.Reader
	read func(int)
}

func (c counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.read(n)
	return n, err
}

// sizeOf is how many bytes are to be read of some files, 0 where that is not
// known: of standard input, or of what is no regular file.
func sizeOf(names []string) (total int64) {
	for _, name := range names {
		st, err := os.Stat(name)
		if name == "-" || err != nil || !st.Mode().IsRegular() {
			return 0
		}
		total += st.Size()
	}
	return total
}

type unpackedFile struct {
	io.Reader
	file *os.File
}

func (u *unpackedFile) Close() error { return u.file.Close() }

// splitter cuts a stream into records at newlines; in CSV a newline inside
// quotes does not end a record. A last record needs no newline.
type splitter struct {
	r     *bufio.Reader
	csv   bool
	limit int
}

func newSplitter(r io.Reader, csv bool, limit int32) *splitter {
	return &splitter{bufio.NewReaderSize(r, 256<<10), csv, int(limit)}
}

// next returns a record of its own memory, without the newline.
func (s *splitter) next() ([]byte, error) {
	var record []byte
	quotes := 0
	for {
		part, err := s.r.ReadSlice('\n')
		record = append(record, part...)
		if s.csv {
			quotes += bytes.Count(part, []byte{'"'})
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			if len(record) == 0 {
				return nil, io.EOF
			}
			if s.csv && quotes%2 == 1 {
				return nil, errors.New("the file ends inside a quoted field")
			}
			return record, nil
		case err != nil:
			return nil, err
		case !s.csv || quotes%2 == 0:
			return record[:len(record)-1], nil
		}
		if len(record) > s.limit {
			return nil, fmt.Errorf("longer than %d bytes, the topic's max.message.bytes", s.limit)
		}
	}
}

// picker finds a field of a record: a member of a JSON object (a dotted path
// goes into nested ones), or a column of CSV when header is set.
type picker struct {
	header    []string
	delimiter byte
}

func (p *picker) need(file string, fields ...string) error {
	for _, f := range fields {
		if f != "" && !slices.Contains(p.header, f) {
			return output.Errorf(output.Usage, "%s: the header has no column %q", file, f).WithHint("columns: %s", strings.Join(p.header, ", "))
		}
	}
	return nil
}

func (p *picker) field(record []byte, name string) (text string, found bool, err error) {
	if p.header != nil {
		fields := csvFields(string(record), p.delimiter)
		i := slices.Index(p.header, name)
		if i >= len(fields) {
			return "", false, nil
		}
		return fields[i], true, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(record, &object); err != nil {
		return "", false, fmt.Errorf("not a JSON object: %w", err)
	}
	raw, ok := object[name]
	if head, rest, dotted := strings.Cut(name, "."); !ok && dotted && object[head] != nil {
		return p.field(object[head], rest)
	}
	if !ok || string(raw) == "null" {
		return "", false, nil
	}
	if raw[0] == '"' {
		return text, true, json.Unmarshal(raw, &text)
	}
	return string(raw), true, nil
}

// csvFields splits one CSV record (RFC 4180), without its line end.
func csvFields(record string, delimiter byte) []string {
	record = strings.TrimSuffix(record, "\r")
	var fields []string
	for {
		if !strings.HasPrefix(record, `"`) {
			field, rest, more := strings.Cut(record, string(delimiter))
			if fields = append(fields, field); !more {
				return fields
			}
			record = rest
			continue
		}
		var field strings.Builder
		record = record[1:]
		for {
			text, rest, closed := strings.Cut(record, `"`)
			field.WriteString(text)
			record = rest
			if !closed || !strings.HasPrefix(record, `"`) {
				break
			}
			field.WriteByte('"')
			record = record[1:]
		}
		_, rest, more := strings.Cut(record, string(delimiter))
		if fields = append(fields, field.String()); !more {
			return fields
		}
		record = rest
	}
}

// lenientTime reads what --time-field meets: RFC 3339, a date and time with a
// space, or epoch seconds or milliseconds.
func lenientTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && strings.Contains(text, ".") {
		return time.UnixMilli(int64(seconds * 1000)), nil
	}
	if t, err := time.ParseInLocation("2006-01-02 15:04:05.999999999", text, time.UTC); err == nil {
		return t, nil
	}
	return offsets.ParseTime(text, time.Now())
}
