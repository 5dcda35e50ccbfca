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
	of    *segment // whose open file it is; nil where the caller keeps it open
	limit int64    // bytes of the file that count
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

// scan begins to read a segment, whose file stays open until done.
func (s *segment) scan(limit int64, chunk int) (*scanner, error) {
	f, err := s.open(0)
	if err != nil {
		return nil, err
	}
	scan := newScanner(f, limit, chunk)
	scan.of = s
	return scan, nil
}

// done gives the scanner back; what it returned is invalid from here on.
func (s *scanner) done() {
	if s.of != nil {
		s.of.data.release()
	}
	s.file, s.of = nil, nil
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

// whole tells whether the batch at pos is there, and its CRC right.
func (s *scanner) whole(pos int64) error {
	b, err := s.batch(pos)
	if err != nil {
		return err
	}
	return b.CheckCRC()
}

// resync looks for the next whole batch after the bad one at pos whose offsets
// are not below floor.
//
// The bad one's own length is tried first: where only its records are bent, the
// next batch begins behind it, and nothing inside of it may be taken for one,
// for records may hold batches themselves (an archive of segments does). Else
// every byte may be the begin of a batch. One is believed when it goes on where
// the bad one ends, by its header; where that is bent too, when no more offsets
// are missing than the lost bytes may have held; or when batches follow it to
// the very end, as in a compacted log with wide gaps.
func (s *scanner) resync(pos int64, floor offsets.Offset) (next int64, ok bool, err error) {
	head, err := s.header(pos)
	if err == nil && head.BaseOffset() >= floor {
		end := pos + int64(head.Size())
		if _, ok, err := s.sound(end, floor); ok || err != nil || end == s.limit {
			return end, ok, err
		}
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, record.ErrCorrupt) {
		return 0, false, err
	}
	expected := s.following(pos, floor)
	for at := pos + 1; at+record.HeaderSize <= s.limit; at++ {
		b, ok, err := s.sound(at, floor)
		if err != nil {
			return 0, false, err
		}
		if !ok {
			continue
		}
		near := b.BaseOffset() == expected
		if expected < 0 {
			near = int64(b.BaseOffset()-floor) <= offsetsPerByte*(at-pos)
		}
		if near || s.unbroken(at) {
			return at, true, nil
		}
	}
	return 0, false, nil
}

// following is the offset after the batch whose header is at pos, however long
// it claims to be, or -1 when that is no header of a batch of offset floor.
func (s *scanner) following(pos int64, floor offsets.Offset) offsets.Offset {
	b, err := s.window(pos, record.HeaderSize)
	if head := record.Batch(b); err == nil && head.Magic() == 2 && head.BaseOffset() == floor && head.LastOffsetDelta() == head.Count()-1 && head.Count() > 0 {
		return head.LastOffset() + 1
	}
	return -1
}

// offsetsPerByte is more than any codec packs into a byte.
const offsetsPerByte = 256

// sound returns the whole batch at a byte when its CRC is right and its offsets
// are not below floor.
func (s *scanner) sound(at int64, floor offsets.Offset) (record.Batch, bool, error) {
	if at+record.HeaderSize > s.limit {
		return nil, false, nil
	}
	b, err := s.window(at, record.HeaderSize)
	if err != nil {
		return nil, false, err
	}
	size, err := record.PeekSize(b)
	head := record.Batch(b)
	if err != nil || at+int64(size) > s.limit || head.BaseOffset() < floor || head.LastOffsetDelta() < 0 {
		return nil, false, nil
	}
	whole, err := s.window(at, size)
	if err != nil {
		return nil, false, err
	}
	return record.Batch(whole), record.Batch(whole).CheckCRC() == nil, nil
}

// unbroken tells whether from a batch on header follows header to the end.
func (s *scanner) unbroken(at int64) bool {
	for next := offsets.Offset(0); at < s.limit; {
		head, err := s.header(at)
		if err != nil || head.BaseOffset() < next {
			return false
		}
		next = head.LastOffset() + 1
		at += int64(head.Size())
	}
	return true
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
