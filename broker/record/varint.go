package record

// varint reads a zigzag varint of at most 64 bits; n is 0 when b holds none.
func varint(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	var u uint64
	for i := 0; i < len(b) && i < 10; i++ {
		u |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			if i == 9 && b[i] > 1 {
				return 0, 0
			}
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}

// varint32 reads a zigzag varint that must fit in 32 bits.
func varint32(b []byte) (v int, n int) {
	w, n := varint(b)
	if w != int64(int32(w)) {
		return 0, 0
	}
	return int(w), n
}

// appendVarint writes a zigzag varint.
func appendVarint(b []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for u >= 0x80 {
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

// varintSize is the length of a zigzag varint.
func varintSize(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}
