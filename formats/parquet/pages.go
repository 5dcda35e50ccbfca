package parquet

// pages are the finished pages of an open column chunk, end to end in blocks.
// One slice that grew with them would be copied again and again, each time to
// memory that was not touched before, which costs more than to encode them. The
// blocks are kept for the next chunk.
type pages struct {
	blocks [][]byte
	used   int // blocks that hold something
	size   int // bytes in them
}

// maxSpare is the most room a block is given beyond the page it is made for.
const maxSpare = 256 << 10

// add takes a page of two parts.
func (p *pages) add(header, body []byte) {
	n := len(header) + len(body)
	if p.used == 0 || cap(p.blocks[p.used-1])-len(p.blocks[p.used-1]) < n {
		p.next(n)
	}
	last := &p.blocks[p.used-1]
	*last = append(append(*last, header...), body...)
	p.size += n
}

// next begins a block that has room for n bytes.
func (p *pages) next(n int) {
	if p.used == len(p.blocks) {
		p.blocks = append(p.blocks, nil)
	}
	if b := &p.blocks[p.used]; cap(*b) < n {
		*b = make([]byte, 0, max(n, min(p.size/2, maxSpare)))
	} else {
		*b = (*b)[:0]
	}
	p.used++
}

// all are the blocks that hold something.
func (p *pages) all() [][]byte { return p.blocks[:p.used] }

// reset forgets the pages and keeps their memory.
func (p *pages) reset() { p.used, p.size = 0, 0 }

// grown has room for n more values, where append would grow a slice of some size
// by a quarter at a time.
func grown[T any](s []T, n int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	return append(make([]T, 0, max(2*cap(s), len(s)+n)), s...)
}
