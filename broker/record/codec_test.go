package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

var allCodecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

func testInputs() map[string][]byte {
	rnd := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	return map[string][]byte{
		"empty": {}, "one": {7}, "text": []byte(strings.Repeat(`{"page":"/cart","user":1234}`, 4000)),
		"noise": noise, "zeros": make([]byte, 3<<20), "block": bytes.Repeat([]byte("ab"), xerialBlock/2),
	}
}

func TestCodecRoundTrip(t *testing.T) {
	for name, in := range testInputs() {
		for _, c := range allCodecs {
			for _, level := range []int{DefaultLevel, 1, 6, 9} {
				packed, err := c.Compress([]byte("before"), in, level)
				if err != nil || !bytes.HasPrefix(packed, []byte("before")) {
					t.Fatalf("%s %s: %v", name, c, err)
				}
				out, err := c.Decompress([]byte("pre"), packed[len("before"):], max(len(in), 1))
				if err != nil || !bytes.Equal(out, append([]byte("pre"), in...)) {
					t.Fatalf("%s %s level %d: %d bytes, want %d: %v", name, c, level, len(out)-3, len(in), err)
				}
				if c != None && len(in) > 100_000 && name != "noise" && len(packed) > len(in)/4 {
					t.Errorf("%s %s level %d: %d bytes of %d", name, c, level, len(packed), len(in))
				}
			}
		}
	}
}

func TestCodecCaps(t *testing.T) {
	for name, in := range testInputs() {
		if len(in) < 2 {
			continue
		}
		for _, c := range allCodecs {
			packed, err := c.Compress(nil, in, DefaultLevel)
			if err != nil {
				t.Fatal(err)
			}
			for _, limit := range []int{0, 1, len(in) / 2, len(in) - 1} {
				out, err := c.Decompress(nil, packed, limit)
				if !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s %s capped at %d of %d: %d bytes, %v", name, c, limit, len(in), len(out), err)
				}
				if cap(out) > 4*limit+(1<<20) {
					t.Errorf("%s %s capped at %d: spent %d bytes", name, c, limit, cap(out))
				}
			}
		}
	}
}

// TestZstdWithoutSize reads frames that do not say how large they are, several
// in a row, beyond the first guess.
func TestZstdWithoutSize(t *testing.T) {
	in := make([]byte, 2<<20)
	enc, err := zstdEncoders[1]()
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	enc.Reset(&packed)
	for range 2 {
		if _, err := enc.Write(in); err != nil {
			t.Fatal(err)
		}
		if err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		enc.Reset(&packed)
	}
	out, err := Zstd.Decompress(nil, packed.Bytes(), 4<<20)
	if err != nil || len(out) != 4<<20 {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	if _, err := Zstd.Decompress(nil, packed.Bytes(), 4<<20-1); err == nil {
		t.Fatal("the cap does not hold")
	}
}

// TestSnappyForms reads raw blocks and xerial frames, also with the byte order
// of the versions turned round and with two streams in a row.
func TestSnappyForms(t *testing.T) {
	in := []byte(strings.Repeat("snappy ", 20_000))
	frames, err := Snappy.Compress(nil, in, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := binary.BigEndian.Uint32(frames[16:]); n > xerialBlock {
		t.Fatalf("first block of %d bytes", n)
	}
	turned := append([]byte(nil), frames...)
	binary.LittleEndian.PutUint32(turned[8:], 1)
	binary.LittleEndian.PutUint32(turned[12:], 1)
	raw := []byte{5, 4 << 2, 'h', 'e', 'l', 'l', 'o'}
	for name, c := range map[string]struct{ src, want []byte }{
		"xerial": {frames, in}, "turned": {turned, in}, "raw": {raw, []byte("hello")},
		"two": {append(append([]byte(nil), frames...), frames...), append(append([]byte(nil), in...), in...)},
	} {
		out, err := Snappy.Decompress(nil, c.src, 1<<20)
		if err != nil || !bytes.Equal(out, c.want) {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
	}
	for name, src := range map[string][]byte{
		"cut header": frames[:12], "cut length": frames[:18], "cut block": frames[:40],
		"lie": {0xff, 0xff, 0xff, 0x7f, 0}, "negative": append([]byte(xerialHeader), 0xff, 0xff, 0xff, 0xff),
	} {
		if out, err := Snappy.Decompress(nil, src, 1<<30); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
	}
}

func TestCodecNames(t *testing.T) {
	for _, c := range allCodecs {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%s: %v %v", c, got, err)
		}
	}
	if got, err := ParseCodec("uncompressed"); err != nil || got != None {
		t.Errorf("uncompressed: %v %v", got, err)
	}
	if _, err := ParseCodec("brotli"); !errors.Is(err, ErrUnsupportedCodec) || !strings.Contains(err.Error(), "zstd") {
		t.Errorf("brotli: %v", err)
	}
	for _, c := range []Codec{5, 7, -1} {
		if _, err := c.Compress(nil, nil, 0); !errors.Is(err, ErrUnsupportedCodec) {
			t.Errorf("%s: %v", c, err)
		}
		if _, err := c.Decompress(nil, nil, 0); !errors.Is(err, ErrUnsupportedCodec) {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// TestCodecsConcurrently shares the pools between goroutines.
func TestCodecsConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			in := []byte(strings.Repeat(fmt.Sprintf("goroutine %d ", i), 500*(i+1)))
			for range 20 {
				for _, c := range allCodecs {
					packed, err := c.Compress(nil, in, 0)
					if err != nil {
						t.Error(err)
						return
					}
					if out, err := c.Decompress(nil, packed, 1<<20); err != nil || !bytes.Equal(out, in) {
						t.Errorf("%s: %v", c, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func FuzzDecompress(f *testing.F) {
	for _, c := range allCodecs {
		packed, err := c.Compress(nil, []byte(strings.Repeat("seed", 100)), 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int8(c), packed)
	}
	f.Fuzz(func(t *testing.T, codec int8, src []byte) {
		out, err := Codec(codec).Decompress(nil, src, 1<<16)
		if err == nil && len(out) > 1<<16 {
			t.Fatalf("%d bytes", len(out))
		}
	})
}
