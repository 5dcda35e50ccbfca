package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// scratch is a scratch file in memory that can come to harm.
type scratch struct {
	bytes []byte
	full  int  // no more bytes fit from here on; 0 = all do
	short bool // reads end early
	lies  bool // reads give other bytes
}

func (s *scratch) WriteAt(b []byte, at int64) (int, error) {
	end := int(at) + len(b)
	if s.full > 0 && end > s.full {
		return 0, errDisk
	}
	if grow := end - len(s.bytes); grow > 0 {
		s.bytes = append(s.bytes, make([]byte, grow)...)
	}
	return copy(s.bytes[at:], b), nil
}

func (s *scratch) ReadAt(b []byte, at int64) (int, error) {
	n := copy(b, s.bytes[at:])
	if s.lies {
		b[n/2] ^= 1
	}
	if s.short {
		return n / 2, io.EOF
	}
	return n, nil
}

// heldFile is the deterministic file by a writer that holds so many bytes of
// pages, on a scratch file.
func heldFile(hold int64, file *scratch) (out []byte, opened int, err error) {
	var to bytes.Buffer
	err = writeFallbackWith(&to, 24_000, Options{Profile: 2, HoldBytes: hold, Scratch: func() (Scratch, error) {
		opened++
		if file == nil {
			return nil, errDisk
		}
		return file, nil
	}})
	return to.Bytes(), opened, err
}

// TestShelf writes one file with more and with less room for its pages: the bytes
// are the same, and no more than the pages of a row group wait.
func TestShelf(t *testing.T) {
	want, opened, err := heldFile(0, nil)
	if err != nil || opened > 0 {
		t.Fatalf("%d scratch files, %v", opened, err)
	}
	for _, hold := range []int64{1, 1000, 100_000} {
		file := &scratch{}
		got, opened, err := heldFile(hold, file)
		if err != nil || opened != 1 || !bytes.Equal(got, want) {
			t.Errorf("%d bytes held: %d scratch files, the same bytes %v, %v", hold, opened, bytes.Equal(got, want), err)
		}
		if len(file.bytes) == 0 || len(file.bytes) > len(want)/2 { // three row groups
			t.Errorf("%d bytes held: %d of the %d bytes waited", hold, len(file.bytes), len(want))
		}
	}
	if _, opened, err := heldFile(int64(len(want)), nil); err != nil || opened > 0 {
		t.Errorf("enough room: %d scratch files, %v", opened, err)
	}
}

// TestShelfComesToHarm has the scratch file refuse to open, to be written, or give
// back something else: an error, never another file.
func TestShelfComesToHarm(t *testing.T) {
	for name, c := range map[string]struct {
		file *scratch
		says string
	}{
		"no file":     {nil, errDisk.Error()},
		"full":        {&scratch{full: 20_000}, errDisk.Error()},
		"cut off":     {&scratch{short: true}, io.EOF.Error()},
		"other bytes": {&scratch{lies: true}, "not those that were written"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := heldFile(1000, c.file); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "scratch: ") {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestShelfRestarts begins a file anew that waits halfway: it is what a new Writer
// makes.
func TestShelfRestarts(t *testing.T) {
	s := mustSchema("k string", "n int64")
	var values []string
	for i := range 3000 {
		values = append(values, fmt.Sprintf(`{"k":"%x","n":%d}`, i*i*7919, i))
	}
	batch := decode(t, s, recordTime(), values...)
	made := func(halfway bool) []byte {
		file := &scratch{}
		o := Options{PageBytes: 1024, HoldBytes: 2000, RowGroupRows: 6000, Scratch: func() (Scratch, error) { return file, nil }}
		var out bytes.Buffer
		w, err := NewWriter(io.Discard, s, o)
		if err == nil && halfway {
			err = w.Write(batch)
		}
		if err == nil {
			err = errors.Join(w.Restart(&out), w.Write(batch), w.Write(batch), w.Write(batch), w.Close())
		}
		if err != nil || len(file.bytes) == 0 {
			t.Fatalf("%d bytes waited, %v", len(file.bytes), err)
		}
		return out.Bytes()
	}
	if !bytes.Equal(made(false), made(true)) {
		t.Error("a file that is begun anew has other bytes")
	}
}
