package parquet

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/parquet/compress"
)

// TestKeptZstdIsArrows compares pages from the kept encoders with those of
// arrow's own codec, at every level and in a row.
func TestKeptZstdIsArrows(t *testing.T) {
	codec, err := compress.GetCodec(compress.Codecs.Zstd)
	if err != nil {
		t.Fatal(err)
	}
	kept, ok := codec.(*keptZstd)
	if !ok {
		t.Fatalf("arrow's zstd codec is %T", codec)
	}
	rnd := rand.New(rand.NewPCG(2, 3))
	for _, level := range []int{compress.DefaultCompressionLevel, 1, 3, 9, 19} {
		for _, size := range []int{0, 1, 100, 5000, 300_000} {
			page := make([]byte, size)
			for i := range page {
				page[i] = byte(rnd.IntN(1 + rnd.IntN(60)))
			}
			if got, want := kept.EncodeLevel(nil, page, level), kept.Codec.EncodeLevel(nil, page, level); !bytes.Equal(got, want) {
				t.Errorf("level %d, %d bytes: other bytes than arrow's", level, size)
			}
		}
	}
}
