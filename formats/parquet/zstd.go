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
// are the same, for the options of the encoder are.
type keptZstd struct {
	compress.Codec // arrow's own, for all but pages

	mu       sync.Mutex
	encoders map[zstd.EncoderLevel]*zstd.Encoder
}

// EncodeLevel compresses one page.
func (k *keptZstd) EncodeLevel(dst, src []byte, level int) []byte {
	speed := zstd.SpeedDefault
	if level != compress.DefaultCompressionLevel {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	enc := k.encoders[speed]
	if enc == nil {
		// As arrow has it, but for the concurrency, which a page has no use for.
		enc, _ = zstd.NewWriter(nil, zstd.WithZeroFrames(true), zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1))
		k.encoders[speed] = enc
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
		encoders: map[zstd.EncoderLevel]*zstd.Encoder{},
	}
	return true
}
