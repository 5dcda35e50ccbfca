package parquet

import (
	"math/bits"

	"github.com/apache/arrow/go/v15/arrow/memory"
)

// growing is an allocator whose slices have power-of-two capacities and grow in
// place while they fit. Arrow v15's encoders grow their buffers by a few bytes
// at a time; with arrow's own allocator each step copies the whole buffer. That
// makes its spaced writes of columns with nulls tens of times slower; our dense
// writes are about as fast with either, but leave 13 times the garbage
// (BenchmarkNullColumns). The bytes of files do not depend on it.
type growing struct{}

// Allocate returns size zero bytes.
func (growing) Allocate(size int) []byte {
	const least = 64 // also the alignment arrow asks for, which these sizes get
	return make([]byte, size, max(least, 1<<bits.Len(uint(max(size, 1)-1))))
}

// Reallocate resizes b, in place when it can.
func (g growing) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	grown := g.Allocate(size)
	copy(grown, b)
	return grown
}

// Free leaves b to the garbage collector.
func (growing) Free([]byte) {}

// allocator is set as arrow's default at start, because the buffer pool of its
// encoders knows no other; it is never changed afterwards.
var allocator = install(growing{})

func install(a memory.Allocator) memory.Allocator {
	memory.DefaultAllocator = a
	return a
}
