package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// The codecs of parquet.thrift that we write.
const (
	codecNone, codecSnappy, codecGzip, codecZstd = 0, 1, 2, 6
)

// decompress gives the size bytes a page holds.
func decompress(codec int64, b []byte, size int) (out []byte, err error) {
	switch codec {
	case codecNone:
		out = b
	case codecSnappy:
		if n, err := s2.DecodedLen(b); err != nil || n != size {
			return nil, fmt.Errorf("%w: snappy of %d bytes, expected %d", errPage, n, size)
		}
		out, err = s2.Decode(nil, b)
	case codecGzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			out, err = io.ReadAll(io.LimitReader(z, int64(size)+1))
		}
	case codecZstd:
		var z *zstd.Decoder
		if z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage)); err == nil {
			out, err = z.DecodeAll(b, nil)
			z.Close()
		}
	default:
		return nil, fmt.Errorf("codec %d is not read", codec)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPage, err)
	}
	if len(out) != size {
		return nil, fmt.Errorf("%w: %d bytes, expected %d", errPage, len(out), size)
	}
	return out, nil
}

// text appends a value in PLAIN encoding as JSON.
func (n *node) text(dst, v []byte) []byte {
	switch n.physical {
	case physicalInt32:
		return n.t.AppendInt(dst, int64(int32(binary.LittleEndian.Uint32(v))))
	case physicalInt64:
		return n.t.AppendInt(dst, int64(binary.LittleEndian.Uint64(v)))
	case physicalFloat:
		return n.t.AppendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(v))))
	case physicalDouble:
		return n.t.AppendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(v)))
	}
	return n.t.AppendBytes(dst, v)
}
