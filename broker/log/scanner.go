package log

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// scanChunk is how much a scanner reads at a time when it looks at headers.
const scanChunk = 4096

// scanner reads the batches of one segment file, header by header or whole.
type scanner struct {
	file  vfs.File
	limit int64 // bytes of the file that count
	chunk int
	buf   []byte
	pos   int64 // of buf[0] in the file
}

// scanners holds their buffers between reads.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

func newScanner(f vfs.File, limit int64, chunk int) *scanner {
	s := scanners.Get().(*scanner)
	s.file, s.limit, s.chunk, s.pos, s.buf = f, limit, chunk, 0, s.buf[:0]
	return s
}

// done gives the scanner back; what it returned is invalid from here on.
func (s *scanner) done() {
	s.file = nil
	if cap(s.buf) <= 4<<20 {
		scanners.Put(s)
	}
}

var (
	errTorn     = fmt.Errorf("%w: cut short", record.ErrCorrupt)
	errZero     = fmt.Errorf("%w: zeros", record.ErrCorrupt)
	errBackward = fmt.Errorf("%w: offsets go back", record.ErrCorrupt)
)

// window makes [pos, pos+n) available.
func (s *scanner) window(pos int64, n int) ([]byte, error) {
	if off := pos - s.pos; off >= 0 && off+int64(n) <= int64(len(s.buf)) {
		return s.buf[off : off+int64(n)], nil
	}
	if pos+int64(n) > s.limit {
		return nil, errTorn
	}
	want := int(min(int64(max(n, s.chunk)), s.limit-pos))
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:want]
	got, err := s.file.ReadAt(s.buf, pos)
	s.pos, s.buf = pos, s.buf[:got]
	if got < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = errTorn
		}
		return nil, err
	}
	return s.buf[:n], nil
}

// header returns the header of the batch at pos, checked as far as it tells
// that a whole batch lies there. io.EOF is the end. An error that is
// record.ErrCorrupt is damage, any other comes from the disk.
func (s *scanner) header(pos int64) (record.Batch, error) {
	if pos >= s.limit {
		return nil, io.EOF
	}
	b, err := s.window(pos, record.HeaderSize)
	if err != nil {
		return nil, err
	}
	head := record.Batch(b)
	size, err := record.PeekSize(b)
	switch {
	case err != nil && allZero(b):
		return nil, errZero
	case errors.Is(err, record.ErrMagic):
		return nil, fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	case err != nil:
		return nil, err
	case pos+int64(size) > s.limit:
		return nil, errTorn
	case head.LastOffsetDelta() < 0 || head.BaseOffset() < 0:
		return nil, errBackward
	}
	return head, nil
}

// batch returns the whole batch whose header is at pos.
func (s *scanner) batch(pos int64) (record.Batch, error) {
	head, err := s.header(pos)
	if err != nil {
		return nil, err
	}
	b, err := s.window(pos, head.Size())
	return record.Batch(b), err
}

// resync looks for the next whole batch after pos whose offsets are not below
// floor, byte by byte.
func (s *scanner) resync(pos int64, floor offsets.Offset) (next int64, ok bool, err error) {
	for at := pos + 1; at+record.HeaderSize <= s.limit; at++ {
		b, err := s.window(at, record.HeaderSize)
		if err != nil {
			return 0, false, err
		}
		size, err := record.PeekSize(b)
		head := record.Batch(b)
		if err != nil || at+int64(size) > s.limit || head.BaseOffset() < floor || head.LastOffsetDelta() < 0 {
			continue
		}
		whole, err := s.window(at, size)
		if err != nil {
			return 0, false, err
		}
		if record.Batch(whole).CheckCRC() == nil {
			return at, true, nil
		}
	}
	return 0, false, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
