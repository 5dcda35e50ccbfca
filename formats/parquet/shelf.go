package parquet

import (
	"fmt"
	"hash/crc32"
	"io"
)

// Scratch is a file that is read back before it is forgotten.
type Scratch interface {
	io.ReaderAt
	io.WriterAt
}

// shelf is where finished pages wait once memory has no room for them. A column
// chunk is one piece of the file, so its pages wait until those of all columns
// are there, which is a row group of up to RowGroupBytes. The scratch file holds
// pieces end to end, each of them pages of one column in order; with the next row
// group it begins anew. What is read back is held against a checksum.
type shelf struct {
	hold int64 // bytes of pages in memory before they are put here; 0 = any number
	open func() (Scratch, error)

	file Scratch
	size int64 // of the open row group
	held int64 // bytes of pages in memory
	err  error
	buf  []byte
}

// piece is one part of the scratch file.
type piece struct {
	pos, size int64
	sum       uint32 // CRC-32C
}

// shelfSums is the polynomial of CRC-32C.
var shelfSums = crc32.MakeTable(crc32.Castagnoli)

// begin forgets the pages of the row group before.
func (s *shelf) begin() { s.size, s.held = 0, 0 }

// add counts bytes of pages in memory and tells whether they are too many.
func (s *shelf) add(n int) (full bool) {
	s.held += int64(n)
	return s.hold > 0 && s.held > s.hold
}

// put takes pages of one column.
func (s *shelf) put(pages [][]byte) (piece, error) {
	if s.err == nil && s.file == nil {
		s.file, s.err = s.open()
	}
	p := piece{pos: s.size}
	for _, b := range pages {
		if s.err == nil {
			_, s.err = s.file.WriteAt(b, p.pos+p.size)
		}
		p.size += int64(len(b))
		p.sum = crc32.Update(p.sum, shelfSums, b)
	}
	if s.err != nil {
		return piece{}, fmt.Errorf("scratch: %w", s.err)
	}
	s.size += p.size
	s.held -= p.size
	return p, nil
}

// give writes a piece where it belongs.
func (s *shelf) give(p piece, to io.Writer) error {
	if s.buf == nil {
		s.buf = make([]byte, 64<<10)
	}
	sum := uint32(0)
	for at := int64(0); at < p.size; {
		b := s.buf[:min(int64(len(s.buf)), p.size-at)]
		if n, err := s.file.ReadAt(b, p.pos+at); n < len(b) {
			return fmt.Errorf("scratch: %w", err)
		}
		sum = crc32.Update(sum, shelfSums, b)
		if _, err := to.Write(b); err != nil {
			return err
		}
		at += int64(len(b))
	}
	if sum != p.sum {
		return fmt.Errorf("scratch: %d bytes at %d are not those that were written", p.size, p.pos)
	}
	return nil
}
