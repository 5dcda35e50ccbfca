package parquet

import (
	"sync"
	_ "unsafe" // for go:linkname

	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/klauspost/compress/zstd"
)

// keptZstd compresses pages with one encoder per level, kept. Arrow v15 makes a
// new encoder for every page, which clears megabytes of tables for each: files
// of few rows took twenty times as long, most of it in the collector. The bytes
// of EncodeLevel are arrow's, for the options of the encoder are; writer profile 3
// has options of its own.
type keptZstd struct {
	compress.Codec // arrow's own, for all but pages

	mu       sync.Mutex
	encoders map[zstdKind]*zstd.Encoder
}

// zstdKind is one kind of encoder.
type zstdKind struct {
	speed zstd.EncoderLevel
	lits  bool // what has no matches is packed by the frequency of its bytes
}

// EncodeLevel compresses one page.
func (k *keptZstd) EncodeLevel(dst, src []byte, level int) []byte {
	return k.encode(dst, src, level, false)
}

func (k *keptZstd) encode(dst, src []byte, level int, lits bool) []byte {
	kind := zstdKind{zstd.SpeedDefault, lits}
	if level != compress.DefaultCompressionLevel {
		kind.speed = zstd.EncoderLevelFromZstd(level)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	enc := k.encoders[kind]
	if enc == nil {
		// As arrow has it, but for the concurrency, which a page has no use for.
		o := []zstd.EOption{zstd.WithZeroFrames(true), zstd.WithEncoderLevel(kind.speed), zstd.WithEncoderConcurrency(1)}
		if lits {
			o = append(o, zstd.WithAllLitEntropyCompression(true))
		}
		enc, _ = zstd.NewWriter(nil, o...)
		k.encoders[kind] = enc
	}
	return enc.EncodeAll(src, dst[:0])
}

// arrowCodecs is arrow's table of codecs, which has no door.
//
//go:linkname arrowCodecs github.com/apache/arrow/go/v15/parquet/compress.codecs
var arrowCodecs map[compress.Compression]compress.Codec

// Arrow's codec is replaced at start and never changed afterwards.
var _ = installZstd()

func installZstd() bool {
	arrowCodecs[compress.Codecs.Zstd] = &keptZstd{
		Codec:    arrowCodecs[compress.Codecs.Zstd],
		encoders: map[zstdKind]*zstd.Encoder{},
	}
	return true
}
