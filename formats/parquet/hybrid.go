package parquet

import (
	"encoding/binary"
	"math/bits"
)

// appendHybrid appends values of width bits in Parquet's hybrid of run lengths
// and bit packing. A run is told as such where, from a multiple of eight values
// on, it is long enough to take fewer bytes.
func appendHybrid[T int16 | uint32](dst []byte, values []T, width int) []byte {
	least := 8 * (1 + 4/width)
	for at := 0; at < len(values); {
		packed := at // values [at, packed) are packed
		run := 0
		for packed < len(values) {
			if run = runLength(values[packed:]); run >= least || packed == at && packed+run == len(values) {
				break
			}
			// A run starts no earlier than at the next multiple of eight.
			packed += max(8, run&^7)
			run = 0
		}
		if packed = min(packed, len(values)); packed > at {
			dst = appendPacked(dst, values[at:packed], width)
		}
		if at = packed + run; run > 0 {
			dst = binary.AppendUvarint(dst, uint64(run)<<1)
			for v, left := uint32(values[packed]), width; left > 0; left -= 8 {
				dst = append(dst, byte(v))
				v >>= 8
			}
		}
	}
	return dst
}

// runLength is how many values at the front are equal.
func runLength[T int16 | uint32](values []T) int {
	first := values[0]
	for i, v := range values {
		if v != first {
			return i
		}
	}
	return len(values)
}

// appendPacked appends one stretch of packed values, filled up with zeros to a
// multiple of eight.
func appendPacked[T int16 | uint32](dst []byte, values []T, width int) []byte {
	groups := (len(values) + 7) / 8
	dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
	end := len(dst) + groups*width
	var held uint64
	var n int
	for _, v := range values {
		held |= uint64(uint32(v)) << n
		if n += width; n >= 32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(held))
			held >>= 32
			n -= 32
		}
	}
	for ; len(dst) < end; held >>= 8 {
		dst = append(dst, byte(held))
	}
	return dst
}

// widthOf is how many bits numbers up to limit take; at least 1, as readers
// have it.
func widthOf(limit int) int { return bits.Len(uint(max(limit, 1))) }
