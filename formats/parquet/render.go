package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"sawlog/formats"
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

// text appends a value in PLAIN encoding as JSON; bytes are in base64.
func (n *node) text(dst, v []byte) []byte {
	switch n.physical {
	case physicalInt32:
		return n.integer(dst, int64(int32(binary.LittleEndian.Uint32(v))))
	case physicalInt64:
		return n.integer(dst, int64(binary.LittleEndian.Uint64(v)))
	case physicalFloat:
		return appendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(v))), 32)
	case physicalDouble:
		return appendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(v)), 64)
	}
	switch n.t.Kind {
	case formats.String:
		quoted, _ := json.Marshal(string(v)) // a string always marshals
		return append(dst, quoted...)
	case formats.JSON:
		if json.Valid(v) {
			return append(dst, v...)
		}
	case formats.UUID:
		if len(v) == 16 {
			h := hex.EncodeToString(v)
			return strconv.AppendQuote(dst, h[:8]+"-"+h[8:12]+"-"+h[12:16]+"-"+h[16:20]+"-"+h[20:])
		}
	case formats.Decimal:
		return appendDecimal(dst, signed(v), int(n.t.Scale))
	}
	return strconv.AppendQuote(dst, base64.StdEncoding.EncodeToString(v))
}

// integer appends an integer column's value by its type.
func (n *node) integer(b []byte, v int64) []byte {
	switch n.t.Kind {
	case formats.Date:
		return time.Unix(v*86400, 0).UTC().AppendFormat(b, `"2006-01-02"`)
	case formats.Decimal:
		return appendDecimal(b, big.NewInt(v), int(n.t.Scale))
	case formats.Timestamp:
		var at time.Time
		layout := "2006-01-02T15:04:05"
		switch n.t.Unit {
		case formats.Millis:
			at, layout = time.UnixMilli(v), layout+".000"
		case formats.Micros:
			at, layout = time.UnixMicro(v), layout+".000000"
		default:
			at, layout = time.Unix(0, v), layout+".000000000"
		}
		if !n.t.Local {
			layout += "Z"
		}
		return at.UTC().AppendFormat(b, `"`+layout+`"`)
	}
	return strconv.AppendInt(b, v, 10)
}

func appendDecimal(b []byte, v *big.Int, scale int) []byte {
	text := new(big.Int).Abs(v).String()
	if v.Sign() < 0 {
		b = append(b, '-')
	}
	if scale <= 0 || scale > 38 {
		return append(b, text...)
	}
	if lack := scale + 1 - len(text); lack > 0 {
		text = string(slices.Repeat([]byte{'0'}, lack)) + text
	}
	b = append(b, text[:len(text)-scale]...)
	return append(append(b, '.'), text[len(text)-scale:]...)
}

// appendFloat appends a number, or a string for what JSON has no number for.
func appendFloat(b []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.AppendQuote(b, strconv.FormatFloat(v, 'g', -1, bits))
	}
	return strconv.AppendFloat(b, v, 'g', -1, bits)
}

// signed reads big-endian two's complement.
func signed(v []byte) *big.Int {
	n := new(big.Int).SetBytes(v)
	if len(v) > 0 && v[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
	}
	return n
}
