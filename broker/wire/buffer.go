package wire

import (
	"math/bits"
	"sync"
)

const (
	minBuffer = 4 << 10
	maxBuffer = minBuffer << (bufferClasses - 1)

	bufferClasses = 14
)

// bufferPool keeps byte slices by powers of two from 4 KiB to 32 MiB; larger ones
// go to the garbage collector. What isn't used for a while does, too.
type bufferPool struct {
	classes [bufferClasses]sync.Pool
}

func class(n int) int {
	return max(0, bits.Len(uint(max(n, 1)-1))-bits.Len(uint(minBuffer-1)))
}

// get returns an empty buffer with room for n bytes at least.
func (p *bufferPool) get(n int) *[]byte {
	if n > maxBuffer {
		b := make([]byte, 0, n)
		return &b
	}
	c := class(n)
	if b, ok := p.classes[c].Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, minBuffer<<c)
	return &b
}

// put takes a buffer back. One that grew on its way lands in the class it can
// serve.
func (p *bufferPool) put(b *[]byte) {
	n := cap(*b)
	if n < minBuffer || n > maxBuffer {
		return
	}
	c := class(n)
	if minBuffer<<c > n {
		c--
	}
	*b = (*b)[:0]
	p.classes[c].Put(b)
}
