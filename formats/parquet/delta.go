package parquet

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Blocks of DELTA_BINARY_PACKED as every writer makes them.
const (
	deltaBlock = 128
	deltaMinis = 4
	deltaMini  = deltaBlock / deltaMinis
)

// appendDelta appends integers of width bytes in DELTA_BINARY_PACKED: the first as
// it is, of the others the difference to the one before, less the least of its
// block, in as many bits as the largest of its 32 takes. Differences wrap around.
//
//	uvarint 128, uvarint 4, uvarint values, zigzag first value
//	block…      zigzag least difference, 4 bytes: bits in each of its parts
//	  part…     32 differences, bit-packed; the last filled up with zeros
//
// https://parquet.apache.org/docs/file-format/data-pages/encodings/
func appendDelta(dst []byte, values []int64, width int) []byte {
	dst = binary.AppendUvarint(dst, deltaBlock)
	dst = binary.AppendUvarint(dst, deltaMinis)
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	if len(values) == 0 {
		return binary.AppendVarint(dst, 0)
	}
	last, shift := values[0], 64-8*width
	dst = binary.AppendVarint(dst, last)
	var deltas [deltaBlock]int64
	for rest := values[1:]; len(rest) > 0; {
		n := min(deltaBlock, len(rest))
		least := int64(math.MaxInt64)
		for i, v := range rest[:n] {
			d := (v - last) << shift >> shift
			deltas[i], last = d, v
			least = min(least, d)
		}
		clear(deltas[n:])
		dst = binary.AppendVarint(dst, least)
		widths := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		for from := 0; from < n; from += deltaMini {
			part, all := deltas[from:from+deltaMini], uint64(0)
			for i := range part[:min(deltaMini, n-from)] {
				part[i] -= least
				all |= uint64(part[i])
			}
			bitWidth := bits.Len64(all)
			dst[widths+from/deltaMini] = byte(bitWidth)
			dst = appendMini(dst, part, bitWidth)
		}
		rest = rest[n:]
	}
	return dst
}

// appendMini appends 32 numbers of width bits.
func appendMini(dst []byte, values []int64, width int) []byte {
	var held uint64
	n := 0
	for _, d := range values {
		held |= uint64(d) << n
		if n += width; n >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, held)
			n -= 64
			held = uint64(d) >> (width - n)
		}
	}
	if n > 0 { // 32
		dst = binary.LittleEndian.AppendUint32(dst, uint32(held))
	}
	return dst
}
