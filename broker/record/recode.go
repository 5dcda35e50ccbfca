package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Recode returns the batch with its records in another codec, in memory of its
// own and with a new CRC; everything else stays: records are not looked into,
// so that offsets, times, headers, nulls and the producer's fields cannot
// change. maxDecompressed caps the memory for the records; 0 is
// DefaultMaxDecompressed.
func Recode(b Batch, codec Codec, level, maxDecompressed int) (Batch, error) {
	if maxDecompressed == 0 {
		maxDecompressed = DefaultMaxDecompressed
	}
	body := []byte(b[HeaderSize:])
	if from := b.Codec(); from != None {
		buf := bodies.Get().(*[]byte)
		defer func() {
			if cap(*buf) <= keepBuffer {
				bodies.Put(buf)
			}
		}()
		var err error
		if *buf, err = from.Decompress((*buf)[:0], body, maxDecompressed); err != nil {
			return nil, err
		}
		body = *buf
	}
	room := len(body) + 16
	if codec != None {
		room = len(body)/2 + 64
	}
	out := make(Batch, HeaderSize, HeaderSize+room)
	copy(out, b)
	full, err := codec.Compress(out, body, level)
	if err != nil {
		return nil, err
	}
	if len(full) > math.MaxInt32 {
		return nil, fmt.Errorf("%w: batch of %d bytes", ErrTooLarge, len(full))
	}
	out = full
	binary.BigEndian.PutUint32(out[posLength:], uint32(len(out)-lengthOverhead))
	out[posAttributes+1] = out[posAttributes+1]&^attrCodec | byte(codec)
	out.seal()
	return out, nil
}
