package record

// keepBuffer is the largest decompression buffer that outlives its batch.
const keepBuffer = 4 << 20

// unpacker is the buffer that the records of one batch after the other are
// decompressed into.
type unpacker struct{ buf []byte }

// unpack gives the records of a batch as they are without compression, valid
// until the next call. limit is in bytes; 0 is DefaultMaxDecompressed. A batch
// that lost its last record to compaction may name a codec and have no bytes.
func (u *unpacker) unpack(b Batch, limit int) ([]byte, error) {
	if b.Count() < 0 {
		return nil, at(ErrCorrupt, b, 0, errLength)
	}
	body := b[HeaderSize:]
	c := b.Codec()
	if c == None || len(body) == 0 {
		return body, nil
	}
	if limit == 0 {
		limit = DefaultMaxDecompressed
	}
	if cap(u.buf) > keepBuffer {
		u.buf = nil
	}
	var err error
	u.buf, err = c.Decompress(u.buf[:0], body, limit)
	return u.buf, err
}
