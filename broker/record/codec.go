package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is a compression; its number is the one in the attributes.
type Codec int8

// The codecs of the format.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// DefaultLevel stands for the level a codec's library takes by itself.
const DefaultLevel = 0

// DefaultMaxDecompressed caps the decompressed size of a batch, in bytes.
const DefaultMaxDecompressed = 64 << 20

// codecNames are the names of Kafka's compression.type.
var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// ParseCodec reads a name of Kafka's compression.type; "uncompressed" is none.
func ParseCodec(s string) (Codec, error) {
	for i, name := range codecNames {
		if s == name {
			return Codec(i), nil
		}
	}
	if s == "uncompressed" {
		return None, nil
	}
	return None, fmt.Errorf("%w: %q, want one of %s", ErrUnsupportedCodec, s, strings.Join(codecNames[:], ", "))
}

// String is the name in Kafka's compression.type.
func (c Codec) String() string {
	if !c.known() {
		return fmt.Sprintf("codec%d", int8(c))
	}
	return codecNames[c]
}

func (c Codec) known() bool { return c >= None && int(c) < len(codecNames) }

// The pools hold (de)compressors between batches; they carry no state a caller
// could see.
var (
	gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	lz4Writers  = sync.Pool{New: func() any { return lz4.NewWriter(nil) }}
	gzipWriters [gzip.BestCompression - gzip.HuffmanOnly + 1]sync.Pool
	readers     = sync.Pool{New: func() any { return new(bytes.Reader) }}
)

// maxZstdWindow is the window of zstd's highest level; DecodeAll needs no
// memory for it, as its output is the window.
const maxZstdWindow = 128 << 20

// zstdDecoder is made once; DecodeAll of one decoder may run many times at once.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(1<<30), zstd.WithDecoderMaxWindow(maxZstdWindow))
})

// zstdEncoders are made once a level.
var zstdEncoders = [...]func() (*zstd.Encoder, error){
	zstd.SpeedFastest:           zstdEncoder(zstd.SpeedFastest),
	zstd.SpeedDefault:           zstdEncoder(zstd.SpeedDefault),
	zstd.SpeedBetterCompression: zstdEncoder(zstd.SpeedBetterCompression),
	zstd.SpeedBestCompression:   zstdEncoder(zstd.SpeedBestCompression),
}

func zstdEncoder(level zstd.EncoderLevel) func() (*zstd.Encoder, error) {
	return sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithZeroFrames(true),
			zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false))
	})
}

// Compress appends the compressed src to dst. Levels are those of the codec's
// own scale (gzip 1–9, lz4 1–9, zstd 1–22); DefaultLevel leaves the choice to
// the codec, snappy has none.
func (c Codec) Compress(dst, src []byte, level int) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return gzipCompress(dst, src, level)
	case Snappy:
		return xerialCompress(dst, src), nil
	case LZ4:
		return lz4Compress(dst, src, level)
	case Zstd:
		kind := zstd.SpeedDefault
		if level != DefaultLevel {
			kind = zstd.EncoderLevelFromZstd(level)
		}
		enc, err := zstdEncoders[kind]()
		if err != nil {
			return dst, fmt.Errorf("zstd encoder: %w", err)
		}
		return enc.EncodeAll(src, dst), nil
	}
	return dst, fmt.Errorf("%w: %s", ErrUnsupportedCodec, c)
}

// Decompress appends the decompressed src to dst; ErrTooLarge when that is more
// than limit bytes, ErrCorrupt when src is not of the codec.
func (c Codec) Decompress(dst, src []byte, limit int) ([]byte, error) {
	var err error
	switch c {
	case None:
		if len(src) > limit {
			return dst, tooLarge(c, limit)
		}
		return append(dst, src...), nil
	case Gzip:
		dst, err = gzipDecompress(dst, src, limit)
	case Snappy:
		dst, err = snappyDecompress(dst, src, limit)
	case LZ4:
		dst, err = lz4Decompress(dst, src, limit)
	case Zstd:
		dst, err = zstdDecompress(dst, src, limit)
	default:
		return dst, fmt.Errorf("%w: %s", ErrUnsupportedCodec, c)
	}
	if err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: %s: %w", ErrCorrupt, c, err)
	}
	return dst, err
}

func tooLarge(c Codec, limit int) error {
	return fmt.Errorf("%w: %s expands to more than %d bytes", ErrTooLarge, c, limit)
}

// appender is an io.Writer that grows a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

func gzipCompress(dst, src []byte, level int) ([]byte, error) {
	if level == DefaultLevel {
		level = gzip.DefaultCompression
	}
	level = min(max(level, gzip.HuffmanOnly), gzip.BestCompression)
	pool := &gzipWriters[level-gzip.HuffmanOnly]
	out := &appender{b: dst}
	w, ok := pool.Get().(*gzip.Writer)
	if ok {
		w.Reset(out)
	} else {
		var err error
		if w, err = gzip.NewWriterLevel(out, level); err != nil {
			return dst, fmt.Errorf("gzip level %d: %w", level, err)
		}
	}
	defer pool.Put(w)
	if _, err := w.Write(src); err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return dst, fmt.Errorf("gzip: %w", err)
	}
	return out.b, nil
}

func gzipDecompress(dst, src []byte, limit int) ([]byte, error) {
	in := readers.Get().(*bytes.Reader)
	in.Reset(src)
	r := gzipReaders.Get().(*gzip.Reader)
	defer func() {
		in.Reset(nil)
		readers.Put(in)
		gzipReaders.Put(r)
	}()
	if err := r.Reset(in); err != nil {
		return dst, err
	}
	return readCapped(Gzip, dst, r, 4*len(src), limit)
}

func lz4Compress(dst, src []byte, level int) ([]byte, error) {
	w := lz4Writers.Get().(*lz4.Writer)
	defer lz4Writers.Put(w)
	out := &appender{b: dst}
	w.Reset(out)
	kind := lz4.Fast
	if level > 0 {
		kind = lz4.CompressionLevel(1 << (8 + min(level, 9)))
	}
	err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.CompressionLevelOption(kind))
	if err == nil {
		_, err = w.Write(src)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return dst, fmt.Errorf("lz4: %w", err)
	}
	return out.b, nil
}

func lz4Decompress(dst, src []byte, limit int) ([]byte, error) {
	in := readers.Get().(*bytes.Reader)
	in.Reset(src)
	r := lz4Readers.Get().(*lz4.Reader)
	r.Reset(in)
	defer func() {
		in.Reset(nil)
		readers.Put(in)
		lz4Readers.Put(r)
	}()
	return readCapped(LZ4, dst, r, 4*len(src), limit)
}

// readCapped appends all of r to dst, growing from a guess of its size.
func readCapped(c Codec, dst []byte, r io.Reader, guess, limit int) ([]byte, error) {
	start := len(dst)
	dst = grow(dst, min(guess, limit)+1)
	for {
		if len(dst) == cap(dst) {
			dst = grow(dst, len(dst)-start)
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst)-start > limit:
			return dst[:start], tooLarge(c, limit)
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return dst[:start], err
		}
	}
}

// zstdBlock is the most one block of a frame decodes to.
const zstdBlock = 128 << 10

// zstdDecompress lets the decoder write no further than the capacity of dst:
// what the frame claims or, when it claims nothing, a guess that grows. The
// decoder reports a full dst in several ways, so any error below the greatest
// possible size means another try with more room.
func zstdDecompress(dst, src []byte, limit int) ([]byte, error) {
	dec, err := zstdDecoder()
	if err != nil {
		return dst, fmt.Errorf("zstd decoder: %w", err)
	}
	var head zstd.Header
	if err := head.Decode(src); err != nil {
		return dst, err
	}
	guess := 8 * len(src)
	if head.HasFCS {
		if head.FrameContentSize > uint64(limit) {
			return dst, tooLarge(Zstd, limit)
		}
		guess = int(head.FrameContentSize)
	}
	// A block is at least 4 bytes long.
	most := min(limit, (len(src)/4+1)*zstdBlock)
	start := len(dst)
	for {
		guess = min(max(guess, 512), most)
		dst = grow(dst, guess)
		room := min(cap(dst)-start, most)
		out, err := dec.DecodeAll(src, dst[:start:start+room])
		switch {
		case err == nil:
			return out, nil
		case room < most:
			guess = 4 * room
		case errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return dst, tooLarge(Zstd, limit)
		default:
			return dst, err
		}
	}
}

// grow makes room for n more bytes.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	out := make([]byte, len(b), len(b)+n)
	copy(out, b)
	return out
}
