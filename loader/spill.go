package loader

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"sawlog/formats"
)

// spill sorts records by bucket on local disk, for splits with more open
// buckets than memory has room for. Records come in (topic, partition, offset)
// order and leave in (bucket, topic, partition, offset) order: runs are sorted
// stably by bucket and merged with earlier runs first, so neither the memory
// nor the number of runs shows in what comes out.
//
// The file holds runs end to end; a run is a sequence of records:
//
//	u32  length of what follows the checksum, little-endian
//	u32  CRC-32C of it
//	i64  bucket key
//	u32  index of the range the record belongs to
//	i64  offset
//	i64  timestamp, milliseconds; -1 = none
//	blob key, blob value
//	u32  number of headers, and for each: blob key, blob value
//	blob = u32 length + 1 (0 = null), then the bytes
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

// spillRef is one record in buf.
type spillRef struct {
	bucket   int64
	pos, end int
}

// refBytes is what one spillRef takes, with room for the slice to grow.
const refBytes = 48

const (
	spillPrefix = 4 + 4         // length, checksum
	spillFixed  = 8 + 4 + 8 + 8 // bucket, range, offset, timestamp
	spillBlobs  = 4 + 4 + 4     // lengths of key and value, number of headers
)

// spillSums is the polynomial of CRC-32C.
var spillSums = crc32.MakeTable(crc32.Castagnoli)

func newSpill(dir string, limit int) *spill { return &spill{dir: dir, limit: max(limit, 1<<20)} }

// Add takes a copy of a record.
func (s *spill) Add(bucket int64, rng int, m *formats.Message) error {
	if size := len(s.buf) + refBytes*len(s.refs); size > 0 && size+spillSize(m) > s.limit {
		if err := s.flush(); err != nil {
			return err
		}
	}
	pos := len(s.buf)
	b := append(s.buf, make([]byte, spillPrefix)...)
	b = binary.LittleEndian.AppendUint64(b, uint64(bucket))
	b = binary.LittleEndian.AppendUint32(b, uint32(rng))
	b = binary.LittleEndian.AppendUint64(b, uint64(m.Offset))
	b = binary.LittleEndian.AppendUint64(b, uint64(m.Timestamp))
	b = appendBlob(b, m.Key)
	b = appendBlob(b, m.Value)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Headers)))
	for i := range m.Headers {
		b = appendBlob(b, []byte(m.Headers[i].Key))
		b = appendBlob(b, m.Headers[i].Value)
	}
	binary.LittleEndian.PutUint32(b[pos:], uint32(len(b)-pos-spillPrefix))
	binary.LittleEndian.PutUint32(b[pos+4:], crc32.Checksum(b[pos+spillPrefix:], spillSums))
	s.buf = b
	s.refs = append(s.refs, spillRef{bucket, pos, len(b)})
	return nil
}

func spillSize(m *formats.Message) int {
	n := spillPrefix + spillFixed + spillBlobs + len(m.Key) + len(m.Value) + refBytes
	for i := range m.Headers {
		n += 8 + len(m.Headers[i].Key) + len(m.Headers[i].Value)
	}
	return n
}

func appendBlob(b, blob []byte) []byte {
	if blob == nil {
		return append(b, 0, 0, 0, 0)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(blob)+1))
	return append(b, blob...)
}

// flush writes what is held as one sorted run.
func (s *spill) flush() error {
	if len(s.refs) == 0 {
		return nil
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "spill-*")
		if err != nil {
			return fmt.Errorf("spill: %w", err)
		}
		s.file = f
	}
	s.sort()
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, s.size), 256<<10)
	for _, ref := range s.refs {
		if _, err := w.Write(s.buf[ref.pos:ref.end]); err != nil {
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
		s.buf = nil // one record larger than all memory: do not keep its room
	}
	return nil
}

func (s *spill) sort() {
	slices.SortStableFunc(s.refs, func(a, b spillRef) int { return cmp.Compare(a.bucket, b.bucket) })
}

// Close removes the file.
func (s *spill) Close() error {
	s.buf, s.refs = nil, nil
	if s.file == nil {
		return nil
	}
	name := s.file.Name()
	err := s.file.Close()
	s.file = nil
	if rm := os.Remove(name); err == nil {
		err = rm
	}
	if err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	return nil
}

// spilled is a record on its way out of a spill; its message is valid until
// the next one.
type spilled struct {
	bucket int64
	rng    int
	msg    formats.Message
}

// Each calls fn for every record in (bucket, arrival) order.
func (s *spill) Each(fn func(r *spilled) error) error {
	if len(s.runs) == 0 { // all of it is in memory
		s.sort()
		var r spilled
		for _, ref := range s.refs {
			if err := r.parse(s.buf[ref.pos+spillPrefix : ref.end]); err != nil {
				return err
			}
			if err := fn(&r); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.buf, s.refs = nil, nil
	window := min(max(s.limit/len(s.runs), 16<<10), 1<<20)
	var h runHeap
	for i, run := range s.runs {
		c := &runCursor{index: i, most: run.end - run.pos, in: bufio.NewReaderSize(io.NewSectionReader(s.file, run.pos, run.end-run.pos), window)}
		ok, err := c.next()
		if err != nil {
			return err
		}
		if ok {
			h = append(h, c)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		c := h[0]
		if err := fn(&c.rec); err != nil {
			return err
		}
		ok, err := c.next()
		switch {
		case err != nil:
			return err
		case ok:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
	}
	return nil
}

// runCursor walks one run.
type runCursor struct {
	index int
	most  int64 // bytes of the run
	in    *bufio.Reader
	bytes []byte
	rec   spilled
}

func (c *runCursor) next() (bool, error) {
	var head [spillPrefix]byte
	switch _, err := io.ReadFull(c.in, head[:]); {
	case err == io.EOF:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("spill: %w", err)
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	if int64(n) > c.most {
		return false, errSpillDamaged
	}
	if cap(c.bytes) < n {
		c.bytes = make([]byte, n, n+n/4)
	}
	c.bytes = c.bytes[:n]
	if _, err := io.ReadFull(c.in, c.bytes); err != nil {
		return false, fmt.Errorf("spill: %w", err)
	}
	if crc32.Checksum(c.bytes, spillSums) != binary.LittleEndian.Uint32(head[4:]) {
		return false, errSpillDamaged
	}
	return true, c.rec.parse(c.bytes)
}

// parse reads a record; its message keeps pointing into b.
func (r *spilled) parse(b []byte) error {
	if len(b) < spillFixed {
		return errSpillDamaged
	}
	r.bucket = int64(binary.LittleEndian.Uint64(b))
	r.rng = int(binary.LittleEndian.Uint32(b[8:]))
	r.msg.Offset = int64(binary.LittleEndian.Uint64(b[12:]))
	r.msg.Timestamp = int64(binary.LittleEndian.Uint64(b[20:]))
	b = b[28:]
	var ok bool
	if r.msg.Key, b, ok = takeBlob(b); !ok {
		return errSpillDamaged
	}
	if r.msg.Value, b, ok = takeBlob(b); !ok || len(b) < 4 {
		return errSpillDamaged
	}
	n := int(binary.LittleEndian.Uint32(b))
	b = b[4:]
	r.msg.Headers = r.msg.Headers[:0]
	for range n {
		var key, value []byte
		if key, b, ok = takeBlob(b); !ok {
			return errSpillDamaged
		}
		if value, b, ok = takeBlob(b); !ok {
			return errSpillDamaged
		}
		r.msg.Headers = append(r.msg.Headers, formats.Header{Key: text(key), Value: value})
	}
	return nil
}

var errSpillDamaged = fail(ExitUnavailable, "spill: the local file does not hold what was written to it")

func takeBlob(b []byte) (blob, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := int(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if n == 0 {
		return nil, b, true
	}
	if n-1 > len(b) {
		return nil, nil, false
	}
	return b[: n-1 : n-1], b[n-1:], true
}

// runHeap orders runs by the bucket they stand at, then by age.
type runHeap []*runCursor

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	if h[i].rec.bucket != h[j].rec.bucket {
		return h[i].rec.bucket < h[j].rec.bucket
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
