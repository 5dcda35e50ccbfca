package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// sample is a batch that has one of everything.
func sample(t testing.TB, c Codec) Batch {
	t.Helper()
	w := NewBuilder(c, DefaultLevel)
	w.Producer(4711, 3, 20)
	w.Append(Record{Timestamp: 1000, Key: []byte("k0"), Value: []byte("v0"), Headers: []Header{{[]byte("h"), []byte("1")}, {[]byte("h"), nil}}})
	w.Append(Record{Timestamp: 3000, Value: []byte{}})
	w.Append(Record{Timestamp: 500, Key: []byte{}, Headers: []Header{{[]byte{}, []byte{}}}})
	w.Append(Record{Timestamp: 2000, Key: []byte("k3"), Value: bytes.Repeat([]byte("long "), 100)})
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dump(t testing.TB, b Batch) string {
	t.Helper()
	var w strings.Builder
	var it Iterator
	if err := it.Reset(b); err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		fmt.Fprintln(&w, printRecord(it.Record()))
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return w.String()
}

// TestBuilderGolden pins the bytes of a batch without compression, and what is
// read out of all of them.
func TestBuilderGolden(t *testing.T) {
	b := sample(t, None)
	golden := filepath.Join("testdata", "batch.hex")
	got := hex.Dump(b) + dump(t, b)
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	for _, c := range allCodecs {
		b := sample(t, c)
		if b.Codec() != c || dump(t, b) != dump(t, sample(t, None)) {
			t.Errorf("%s reads\n%s", c, dump(t, b))
		}
		if facts, err := Validate(b, Rules{}); err != nil || facts.Corrected || facts.Count != 4 || facts.MaxTimestamp != 3000 || facts.Codec != c {
			t.Errorf("%s: %+v, %v", c, facts, err)
		}
		for _, to := range allCodecs {
			out, err := Recode(b, to, DefaultLevel, 0)
			if err != nil || out.Codec() != to || out.CheckCRC() != nil || dump(t, out) != dump(t, b) || out.ProducerID() != 4711 {
				t.Errorf("%s to %s: %v", c, to, err)
			}
		}
	}
}

func TestBatchFields(t *testing.T) {
	b := sample(t, None)
	b.Stamp(100, 7)
	if b.BaseOffset() != 100 || b.LastOffset() != 103 || b.Epoch() != 7 || b.Count() != 4 || b.LastOffsetDelta() != 3 ||
		b.ProducerID() != 4711 || b.ProducerEpoch() != 3 || b.BaseSequence() != 20 || b.LastSequence() != 23 ||
		b.BaseTimestamp() != 1000 || b.MaxTimestamp() != 3000 || b.Attributes() != 0 || b.Size() != len(b) {
		t.Fatalf("fields of %x", []byte(b[:HeaderSize]))
	}
	if err := b.CheckCRC(); err != nil {
		t.Fatalf("stamping broke the crc: %v", err)
	}
	b.SetMaxTimestamp(99, true)
	if !b.LogAppendTime() || b.MaxTimestamp() != 99 || b.CheckCRC() != nil {
		t.Fatal("broker's time")
	}
	if first := strings.Fields(dump(t, b)); first[1] != "99" {
		t.Fatalf("records have time %s", first[1])
	}
	w := NewBuilder(None, 0)
	w.Producer(1, 0, math.MaxInt32)
	w.Append(Record{})
	w.Append(Record{})
	wrapped, err := w.Batch()
	if err != nil || wrapped.LastSequence() != 0 {
		t.Fatalf("sequence wraps to %d: %v", wrapped.LastSequence(), err)
	}
	w.Reset()
	if _, err := w.Batch(); !errors.Is(err, ErrInvalid) || w.Len() != HeaderSize || w.Count() != 0 {
		t.Fatalf("empty batch: %v", err)
	}
}

func TestSplit(t *testing.T) {
	b := sample(t, Gzip)
	set := append(append([]byte(nil), b...), b...)
	first, rest, err := Split(set)
	if err != nil || !bytes.Equal(first, b) || !bytes.Equal(rest, b) {
		t.Fatalf("%d bytes, %d rest, %v", len(first), len(rest), err)
	}
	_, _, err = Split(nil)
	if !errors.Is(err, io.EOF) {
		t.Fatalf("empty: %v", err)
	}
	for n := 1; n < len(b); n++ {
		if _, rest, err := Split(b[:n]); !errors.Is(err, io.ErrUnexpectedEOF) || len(rest) != n {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for name, fn := range map[string]func(b []byte){
		"length 0":        func(b []byte) { binary.BigEndian.PutUint32(b[posLength:], 0) },
		"length 48":       func(b []byte) { binary.BigEndian.PutUint32(b[posLength:], 48) },
		"negative length": func(b []byte) { binary.BigEndian.PutUint32(b[posLength:], 1<<31) },
		"magic 3":         func(b []byte) { b[posMagic] = 3 },
		"magic -1":        func(b []byte) { b[posMagic] = 0xff },
		"zeros":           func(b []byte) { clear(b) },
	} {
		bad := append([]byte(nil), b...)
		fn(bad)
		if _, _, err := Split(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	old := append([]byte(nil), b...)
	old[posMagic] = 1
	if _, _, err := Split(old); !errors.Is(err, ErrMagic) {
		t.Errorf("magic 1: %v", err)
	}
}

// TestValidateRefuses changes one thing at a time, under a right CRC.
func TestValidateRefuses(t *testing.T) {
	put32 := func(pos int, v uint32) func(Batch) {
		return func(b Batch) { binary.BigEndian.PutUint32(b[pos:], v) }
	}
	attr := func(bits byte) func(Batch) { return func(b Batch) { b[posAttributes+1] |= bits } }
	for name, c := range map[string]struct {
		change func(b Batch)
		rules  Rules
		want   error
	}{
		"no records":       {put32(posCount, 0), Rules{}, ErrInvalid},
		"negative count":   {put32(posCount, 1<<31), Rules{}, ErrInvalid},
		"huge count":       {func(b Batch) { put32(posCount, 1<<30)(b); put32(posLastOffsetDelta, 1<<30-1)(b) }, Rules{}, ErrInvalid},
		"count and delta":  {put32(posLastOffsetDelta, 4), Rules{}, ErrInvalid},
		"one record less":  {func(b Batch) { put32(posCount, 3)(b); put32(posLastOffsetDelta, 2)(b) }, Rules{}, ErrInvalid},
		"one record more":  {func(b Batch) { put32(posCount, 5)(b); put32(posLastOffsetDelta, 4)(b) }, Rules{}, ErrInvalid},
		"codec 5":          {attr(5), Rules{}, ErrUnsupportedCodec},
		"codec lies":       {attr(4), Rules{}, ErrCorrupt},
		"control":          {attr(attrControl), Rules{}, ErrInvalid},
		"delete horizon":   {attr(attrDeleteHorizon), Rules{}, ErrInvalid},
		"sequence missing": {put32(posBaseSequence, math.MaxUint32), Rules{}, ErrInvalid},
		"transaction of nobody": {func(b Batch) {
			attr(attrTransactional)(b)
			binary.BigEndian.PutUint64(b[posProducerID:], math.MaxUint64)
		}, Rules{}, ErrInvalid},
		"offset delta": {func(b Batch) { b[HeaderSize+3+1] = 2 }, Rules{}, ErrInvalid},
		"null key":     {func(Batch) {}, Rules{NeedKeys: true}, ErrInvalid},
		"ahead":        {func(Batch) {}, Rules{Now: 1000, AfterMax: 1999}, ErrTimestamp},
		"behind":       {func(Batch) {}, Rules{Now: 10_000, BeforeMax: 9499}, ErrTimestamp},
		"length":       {put32(posLength, 100), Rules{}, ErrCorrupt},
		"magic":        {func(b Batch) { b[posMagic] = 1 }, Rules{}, ErrMagic},
	} {
		b := sample(t, None)
		c.change(b)
		b.seal()
		if _, err := Validate(b, c.rules); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for name, rules := range map[string]Rules{
		"just not ahead": {Now: 1000, AfterMax: 2000}, "just not behind": {Now: 10_000, BeforeMax: 9500},
		"broker's time": {LogAppendTime: true, Now: 1, AfterMax: 1},
	} {
		if _, err := Validate(sample(t, None), rules); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	bomb := sample(t, Zstd)
	if _, err := Validate(bomb, Rules{MaxDecompressed: 100}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("bomb: %v", err)
	}
}

// TestValidateEveryBit: no single flipped bit under the CRC passes.
func TestValidateEveryBit(t *testing.T) {
	for _, c := range allCodecs {
		good := sample(t, c)
		for i := posLength * 8; i < len(good)*8; i++ {
			if i/8 >= posEpoch && i/8 < posMagic {
				continue // the leader epoch is the broker's to set
			}
			b := append(Batch(nil), good...)
			b[i/8] ^= 1 << (i % 8)
			if _, err := Validate(b, Rules{}); err == nil {
				t.Fatalf("%s: bit %d of byte %d", c, i%8, i/8)
			}
		}
	}
}

func TestValidateCorrects(t *testing.T) {
	b := sample(t, LZ4)
	b.SetMaxTimestamp(12, true)
	facts, err := Validate(b, Rules{})
	if err != nil || !facts.Corrected || b.MaxTimestamp() != 3000 || b.LogAppendTime() || b.CheckCRC() != nil {
		t.Fatalf("%+v, %v", facts, err)
	}
	if facts, err = Validate(b, Rules{}); err != nil || facts.Corrected {
		t.Fatalf("again: %+v, %v", facts, err)
	}
}

func TestControl(t *testing.T) {
	for _, want := range []bool{true, false} {
		b, err := Marker(want, 9, 2, 5, 1000)
		if err != nil || !b.IsControl() || !b.IsTransactional() || b.ProducerID() != 9 || b.BaseSequence() != NoSequence {
			t.Fatalf("%x: %v", []byte(b), err)
		}
		if _, err := Validate(b, Rules{AllowControl: true}); err != nil {
			t.Fatal(err)
		}
		var it Iterator
		if err := it.Reset(b); err != nil || !it.Next() {
			t.Fatalf("%v", err)
		}
		commit, err := ParseControl(it.Record().Key)
		if err != nil || commit != want || !bytes.Equal(it.Record().Value, []byte{0, 0, 0, 0, 0, 5}) {
			t.Fatalf("commit %v, %v", commit, err)
		}
	}
	for _, key := range []string{"", "\x00\x00\x00", "\x00\x00\x00\x02", "\xff\xff\x00\x00"} {
		if _, err := ParseControl([]byte(key)); err == nil {
			t.Errorf("key %q", key)
		}
	}
	if commit, err := ParseControl([]byte("\x00\x05\x00\x01more")); err != nil || !commit {
		t.Errorf("younger version: %v %v", commit, err)
	}
}

// TestIteratorDamage ends with an error, never a panic, on every cut.
func TestIteratorDamage(t *testing.T) {
	for _, c := range allCodecs {
		good := sample(t, c)
		for n := HeaderSize; n < len(good); n++ {
			b := append(Batch(nil), good[:n]...)
			var it Iterator
			err := it.Reset(b)
			count := 0
			for err == nil && it.Next() {
				count++
			}
			if err == nil {
				err = it.Err()
			}
			if err == nil && count == 4 {
				continue // a codec's trailer was cut off
			}
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%s cut at %d: %d records, %v", c, n, count, err)
			}
		}
	}
}

func TestAllocations(t *testing.T) {
	if raced {
		t.Skip("allocations are not counted under the race detector")
	}
	many := NewBuilder(None, 0)
	for i := range 1000 {
		many.Append(Record{Timestamp: int64(i), Key: []byte("key"), Value: []byte("value of some length"), Headers: []Header{{[]byte("a"), []byte("b")}}})
	}
	plain, err := many.Batch()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range allCodecs {
		b, err := Recode(plain, c, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		var it Iterator
		walk := func() {
			if err := it.Reset(b); err != nil {
				t.Fatal(err)
			}
			n := 0
			for it.Next() {
				n++
			}
			if n != 1000 || it.Err() != nil {
				t.Fatalf("%d records, %v", n, it.Err())
			}
		}
		walk()
		// Per batch of a thousand records; the codecs' libraries need a few.
		limit := map[Codec]float64{None: 0, Gzip: 4, Snappy: 0, LZ4: 6, Zstd: 2}[c]
		if got := testing.AllocsPerRun(50, walk); got > limit {
			t.Errorf("%s: iterating allocates %.1f times, at most %.0f", c, got, limit)
		}
		check := func() {
			if _, err := Validate(b, Rules{}); err != nil {
				t.Fatal(err)
			}
		}
		check()
		if got := testing.AllocsPerRun(50, check); got > limit+1 {
			t.Errorf("%s: validating allocates %.1f times, at most %.0f", c, got, limit+1)
		}
	}
}

func FuzzBatch(f *testing.F) {
	for _, c := range allCodecs {
		f.Add([]byte(sample(f, c)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, _, err := Split(raw)
		if err != nil {
			return
		}
		b.seal()
		it := Iterator{MaxDecompressed: 1 << 16}
		n := 0
		if it.Reset(b) == nil {
			for it.Next() {
				n++
			}
		}
		facts, err := Validate(b, Rules{MaxDecompressed: 1 << 16})
		if err == nil && (it.Err() != nil || n != int(facts.Count)) {
			t.Fatalf("valid, but the iterator reads %d of %d: %v", n, facts.Count, it.Err())
		}
		if err == nil && b.CheckCRC() != nil {
			t.Fatal("valid with a wrong crc")
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	for _, c := range allCodecs {
		w := NewBuilder(c, 0)
		for w.Len() < 100_000 {
			w.Append(Record{Timestamp: 1, Value: []byte(`{"page":"/cart","user":1234,"referrer":"https://example.org/"}`)})
		}
		size := w.Len()
		batch, err := w.Batch()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.String(), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(batch, Rules{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
