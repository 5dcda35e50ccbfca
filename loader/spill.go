package loader

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"sawlog/formats"
	"sawlog/loader/sink"
)

// spill sorts rows by bucket on local disk, for splits with more open buckets
// than memory has room for. Rows come in (topic, partition, offset) order and
// leave in (bucket, topic, partition, offset) order: runs are sorted by bucket
// and arrival and merged with earlier runs first, so neither the memory nor the
// number of runs shows in what comes out. All runs are read at once, each through
// a window; when there are so many that the windows would outgrow the limit, they
// are made one.
//
// The file holds runs end to end; a run is a sequence of rows:
//
//	u32  length of what follows the checksum, little-endian
//	u32  CRC-32C of it
//	i64  bucket key
//	the row, as formats.RowCursor gives it
//
// It lives as long as the task and has no version.
type spill struct {
	dir   string
	limit int // bytes held before a run is written
	file  *os.File
	size  int64
	runs  []spillRun
	buf   []byte
	refs  []spillRef
}

type spillRun struct{ pos, end int64 }

// spillRef is one row in buf.
type spillRef struct {
	bucket int64
	pos    int
}

// refBytes is what one spillRef takes, with room for the slice to grow.
const refBytes = 32

const (
	spillPrefix = 4 + 4 // length, checksum
	spillFixed  = 8     // bucket

	spillBuffer = 256 << 10 // of a run that is written
	leastWindow = 16 << 10  // of a run that is read
)

// spillSums is the polynomial of CRC-32C.
var spillSums = crc32.MakeTable(crc32.Castagnoli)

func newSpill(dir string, limit int) *spill { return &spill{dir: dir, limit: limit} }

// Add takes a copy of the next row of a cursor.
func (s *spill) Add(bucket int64, row *formats.RowCursor) error {
	if s.buf == nil {
		s.buf = make([]byte, 0, s.limit+s.limit/8) // it would double as it grows
	}
	pos := len(s.buf)
	b := append(s.buf, make([]byte, spillPrefix)...)
	b = binary.LittleEndian.AppendUint64(b, uint64(bucket))
	b = row.Append(b)
	binary.LittleEndian.PutUint32(b[pos:], uint32(len(b)-pos-spillPrefix))
	binary.LittleEndian.PutUint32(b[pos+4:], crc32.Checksum(b[pos+spillPrefix:], spillSums))
	s.buf = b
	s.refs = append(s.refs, spillRef{bucket, pos})
	if len(s.buf)+refBytes*len(s.refs) < s.limit {
		return nil
	}
	if err := s.flush(); err != nil || len(s.runs) < s.most() {
		return err
	}
	return s.unite()
}

// flush writes what is held as one sorted run.
func (s *spill) flush() error {
	if len(s.refs) == 0 {
		return nil
	}
	if s.file == nil {
		f, err := sink.Scratch(s.dir)
		if err != nil {
			return fmt.Errorf("spill: %w", err)
		}
		s.file = f
	}
	s.sort()
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, s.size), spillBuffer)
	for _, ref := range s.refs {
		if _, err := w.Write(s.row(ref)); err != nil {
			return fmt.Errorf("spill: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	run := spillRun{s.size, s.size + int64(len(s.buf))}
	s.runs, s.size = append(s.runs, run), run.end
	s.buf, s.refs = s.buf[:0], s.refs[:0]
	if cap(s.buf) > 2*s.limit {
		s.buf = nil // one row larger than all memory: do not keep its room
	}
	return nil
}

// most is how many runs are read at once.
func (s *spill) most() int { return max(s.limit/leastWindow, 8) }

// unite makes one run of all, in a file of its own.
func (s *spill) unite() error {
	s.buf = nil // the windows take its room
	file, err := sink.Scratch(s.dir)
	if err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	w := bufio.NewWriterSize(file, spillBuffer)
	var size int64
	err = s.merge(func(c *runCursor) error {
		size += int64(len(c.framed))
		if _, err := w.Write(c.framed); err != nil {
			return fmt.Errorf("spill: %w", err)
		}
		return nil
	})
	if err == nil {
		if err = w.Flush(); err != nil {
			err = fmt.Errorf("spill: %w", err)
		}
	}
	old := s.file
	if err != nil {
		old = file
	} else {
		s.file, s.size, s.runs = file, size, []spillRun{{0, size}}
	}
	return errors.Join(err, old.Close())
}

// row is a row with its prefix.
func (s *spill) row(ref spillRef) []byte {
	size := binary.LittleEndian.Uint32(s.buf[ref.pos:])
	return s.buf[ref.pos : ref.pos+spillPrefix+int(size)]
}

func (s *spill) sort() {
	slices.SortFunc(s.refs, func(a, b spillRef) int {
		if a.bucket != b.bucket {
			return cmp.Compare(a.bucket, b.bucket)
		}
		return a.pos - b.pos
	})
}

// Close gives the file up.
func (s *spill) Close() error {
	s.buf, s.refs = nil, nil
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	if err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	return nil
}

// Each calls fn for every row in (bucket, arrival) order; the row is valid
// during the call.
func (s *spill) Each(fn func(bucket int64, row []byte) error) error {
	if len(s.runs) == 0 { // all of it is in memory
		s.sort()
		for _, ref := range s.refs {
			if err := fn(ref.bucket, s.row(ref)[spillPrefix+spillFixed:]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.buf, s.refs = nil, nil
	return s.merge(func(c *runCursor) error { return fn(c.bucket, c.framed[spillPrefix+spillFixed:]) })
}

// merge reads all runs at once and calls fn with the cursor of each row in turn.
func (s *spill) merge(fn func(c *runCursor) error) error {
	window := min(max(s.limit/len(s.runs), leastWindow), 1<<20)
	var h runHeap
	for i, run := range s.runs {
		c := &runCursor{index: i, left: run.end - run.pos}
		c.in = bufio.NewReaderSize(io.NewSectionReader(s.file, run.pos, c.left), window)
		if err := c.next(); err != nil {
			return err
		}
		h = append(h, c)
	}
	heap.Init(&h)
	for len(h) > 0 {
		c := h[0]
		bucket := c.bucket
		if err := fn(c); err != nil {
			return err
		}
		switch err := c.next(); {
		case err == io.EOF:
			heap.Pop(&h)
		case err != nil:
			return err
		case c.bucket != bucket: // else it is first still
			heap.Fix(&h, 0)
		}
	}
	return nil
}

// runCursor walks one run.
type runCursor struct {
	index  int
	left   int64 // bytes of the run not yet read
	in     *bufio.Reader
	long   []byte // a row longer than the reader's window
	held   int    // bytes of the reader the row lies in
	bucket int64
	framed []byte // the row with its prefix
}

// next reads a row, or io.EOF.
func (c *runCursor) next() error {
	if _, err := c.in.Discard(c.held); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	c.held = 0
	if c.left == 0 {
		return io.EOF
	}
	head, err := c.in.Peek(spillPrefix)
	if err != nil {
		return damagedSpill(err)
	}
	size, sum := int64(binary.LittleEndian.Uint32(head)), binary.LittleEndian.Uint32(head[4:])
	if c.left -= spillPrefix + size; size < spillFixed || c.left < 0 {
		return errSpillDamaged
	}
	b, err := c.take(spillPrefix + int(size))
	if err != nil {
		return damagedSpill(err)
	}
	if crc32.Checksum(b[spillPrefix:], spillSums) != sum {
		return errSpillDamaged
	}
	c.bucket, c.framed = int64(binary.LittleEndian.Uint64(b[spillPrefix:])), b
	return nil
}

// take gives the next n bytes, where they lie if the window holds them.
func (c *runCursor) take(n int) ([]byte, error) {
	if n <= c.in.Size() {
		c.held = n
		return c.in.Peek(n)
	}
	c.long = slices.Grow(c.long[:0], n)[:n]
	_, err := io.ReadFull(c.in, c.long)
	return c.long, err
}

var errSpillDamaged = fail(ExitUnavailable, "spill: the local file does not hold what was written to it")

// damagedSpill is the error of a read: a file that ends too early is damaged.
func damagedSpill(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errSpillDamaged
	}
	return fmt.Errorf("spill: %w", err)
}

// runHeap orders runs by the bucket they stand at, then by age.
type runHeap []*runCursor

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	if h[i].bucket != h[j].bucket {
		return h[i].bucket < h[j].bucket
	}
	return h[i].index < h[j].index
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*runCursor)) }
func (h *runHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}
