package parquet

import (
	"encoding/binary"
	"fmt"
)

// deltas reads n integers of DELTA_BINARY_PACKED, sign-extended from width bytes,
// and gives what follows them.
func deltas(b []byte, n int64, width int) (values []int64, rest []byte, err error) {
	r := deltaReader{b: b}
	block, minis, total, last := r.uvarint(), r.uvarint(), r.uvarint(), r.varint()
	if r.bad || block != deltaBlock || minis != deltaMinis { // others are nobody's, and may stand for any number of values
		return nil, nil, fmt.Errorf("%w: blocks of %d deltas in %d parts", errPage, block, minis)
	}
	if n < 0 || total != uint64(n) {
		return nil, nil, fmt.Errorf("%w: %d deltas for %d values", errPage, total, n)
	}
	if n == 0 {
		return nil, r.b, nil
	}
	if n > maxEntries {
		return nil, nil, errPage
	}
	shift := 64 - 8*width
	values = append(make([]int64, 0, min(n, int64(len(b))*8+1)), last)
	for int64(len(values)) < n {
		least := r.varint()
		widths := r.take(deltaMinis)
		for i := 0; i < len(widths) && int64(len(values)) < n; i++ {
			bitWidth := int(widths[i])
			if bitWidth > 64 {
				return nil, nil, fmt.Errorf("%w: deltas of %d bits", errPage, bitWidth)
			}
			packed := r.take(deltaMini * bitWidth / 8)
			for at := 0; !r.bad && at < deltaMini && int64(len(values)) < n; at++ {
				last = (last + least + int64(bitsAt(packed, at*bitWidth, bitWidth))) << shift >> shift
				values = append(values, last)
			}
		}
		if r.bad {
			return nil, nil, errPage
		}
	}
	return values, r.b, nil
}

// bitsAt is the number of width bits at a bit position, the lowest first.
func bitsAt(b []byte, at, width int) (v uint64) {
	for got := 0; got < width; {
		n := min(8-at%8, width-got)
		v |= uint64(b[at/8]>>(at%8)&(1<<n-1)) << got
		at += n
		got += n
	}
	return v
}

// deltaReader takes what deltas are made of from the front of a page.
type deltaReader struct {
	b   []byte
	bad bool // the page ended early
}

func (r *deltaReader) take(n int) []byte {
	if n > len(r.b) {
		r.bad, n = true, 0
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *deltaReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, n = true, 0
	}
	r.b = r.b[n:]
	return v
}

func (r *deltaReader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// deltaInts reads n integers of DELTA_BINARY_PACKED as plain does.
func (c *cursor) deltaInts(b []byte, n int64) ([][]byte, error) {
	width := 0
	switch c.leaf.physical {
	case physicalInt32:
		width = 4
	case physicalInt64:
		width = 8
	default:
		return nil, fmt.Errorf("%w: deltas in a column of physical type %d", errPage, c.leaf.physical)
	}
	values, rest, err := deltas(b, n, width)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind its deltas", errPage, len(rest))
	}
	raw := make([]byte, 0, width*len(values))
	var one [8]byte
	for _, v := range values {
		binary.LittleEndian.PutUint64(one[:], uint64(v))
		raw = append(raw, one[:width]...)
	}
	return c.plain(raw, n)
}

// deltaTexts reads n values of DELTA_LENGTH_BYTE_ARRAY as plain does.
func (c *cursor) deltaTexts(b []byte, n int64) ([][]byte, error) {
	if c.leaf.physical != physicalBytes {
		return nil, fmt.Errorf("%w: lengths in a column of physical type %d", errPage, c.leaf.physical)
	}
	lengths, b, err := deltas(b, n, 4)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(lengths))
	for i, size := range lengths {
		if size < 0 || size > int64(len(b)) {
			return nil, fmt.Errorf("%w: a value of %d bytes", errPage, size)
		}
		if out[i] = b[:size]; !c.raw {
			out[i] = c.leaf.text(nil, b[:size])
		}
		b = b[size:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind its values", errPage, len(b))
	}
	return out, nil
}
