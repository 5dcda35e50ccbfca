package record

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// odd is a batch with everything that could be lost: nulls beside empties, two
// headers of one name, times that go back, a producer in a transaction.
func odd(t testing.TB, codec Codec) Batch {
	t.Helper()
	w := NewBuilder(codec, 0)
	w.Producer(1<<40, 7, 1<<31-3)
	w.Transactional(true)
	for _, r := range []Record{
		{Timestamp: 1_600_000_000_000, Key: []byte("k"), Value: []byte("v"), Headers: []Header{{[]byte("h"), []byte("1")}, {[]byte("h"), nil}, {[]byte(""), []byte("")}}},
		{Timestamp: 1_500_000_000_000},
		{Timestamp: 1_600_000_000_001, Key: []byte{}, Value: []byte{}},
		{Timestamp: 1_700_000_000_000, Key: []byte("tombstone")},
		{Timestamp: 1_600_000_000_000, Value: bytes.Repeat([]byte(`{"page":"/cart"}`), 500)},
	} {
		w.Append(r)
	}
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	b.Stamp(991, 12)
	return b
}

// flat writes all of a batch that a reader can see, but for its codec.
func flat(t testing.TB, b Batch) string {
	t.Helper()
	if err := b.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	var w bytes.Buffer
	fmt.Fprintln(&w, b.BaseOffset(), b.LastOffset(), b.Epoch(), b.Attributes()&^attrCodec, b.BaseTimestamp(), b.MaxTimestamp(),
		b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LastSequence(), b.Count())
	var it Iterator
	if err := it.Reset(b); err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		r := it.Record()
		fmt.Fprintf(&w, "%d %d %#v %#v", r.Offset, r.Timestamp, r.Key, r.Value)
		for _, h := range r.Headers {
			fmt.Fprintf(&w, " %#v=%#v", h.Key, h.Value)
		}
		fmt.Fprintln(&w)
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return w.String()
}

// TestRecode converts every codec to every other at every level: all a reader
// sees stays, the source is not touched, and what was made passes validation.
func TestRecode(t *testing.T) {
	levels := map[Codec][]int{
		None: {0}, Snappy: {0},
		Gzip: {-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		LZ4:  {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17},
		Zstd: {-131072, -7, -1, 0, 1, 2, 3, 4, 6, 9, 12, 19, 22},
	}
	for _, from := range allCodecs {
		source := odd(t, from)
		want, before := flat(t, source), slices.Clone(source)
		for _, to := range allCodecs {
			for _, level := range levels[to] {
				out, err := Recode(source, to, level, 0)
				if err != nil {
					t.Fatalf("%s to %s level %d: %v", from, to, level, err)
				}
				if out.Codec() != to || out.Size() != len(out) || flat(t, out) != want {
					t.Fatalf("%s to %s level %d: %s\nwant %s", from, to, level, flat(t, out), want)
				}
				if facts, err := Validate(out, Rules{}); err != nil || facts.Corrected || facts.Count != 5 {
					t.Fatalf("%s to %s level %d: %+v, %v", from, to, level, facts, err)
				}
				if to != None && len(out) > 1200 {
					t.Errorf("%s to %s level %d: %d bytes", from, to, level, len(out))
				}
			}
		}
		if !bytes.Equal(source, before) {
			t.Fatalf("the %s source was changed", from)
		}
	}
}

// TestRecodeBroken refuses what no codec reads, and what expands beyond the cap,
// without the memory for it.
func TestRecodeBroken(t *testing.T) {
	for _, codec := range allCodecs[1:] {
		broken := slices.Clone(odd(t, codec))
		for i := range broken[HeaderSize:] {
			broken[HeaderSize+i] = byte(37 * i)
		}
		if _, err := Recode(broken, None, 0, 0); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s rubbish: %v", codec, err)
		}
		bomb := bombOf(t, codec, 32<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Recode(bomb, None, 0, 1<<20)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s bomb of %d bytes: %v", codec, len(bomb), err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 && !raced {
			t.Errorf("%s bomb took %d bytes of memory", codec, used)
		}
	}
	if _, err := Recode(odd(t, None), Codec(6), 0, 0); !errors.Is(err, ErrUnsupportedCodec) {
		t.Errorf("codec 6: %v", err)
	}
}

// bombOf is a batch whose records are zeros without end.
func bombOf(t testing.TB, codec Codec, size int) Batch {
	t.Helper()
	b := slices.Clone(odd(t, None)[:HeaderSize])
	full, err := codec.Compress(b, make([]byte, size), DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	b = full
	b.fill(byte(codec), 0, 0, 0, 1)
	b.seal()
	return b
}

// TestNestedCompression: records that are a compressed stream once more are no
// records (a retried batch compressed twice by its client).
func TestNestedCompression(t *testing.T) {
	for _, outer := range allCodecs[1:] {
		for _, inner := range allCodecs[1:] {
			once := odd(t, inner)
			b := slices.Clone(once[:HeaderSize])
			full, err := outer.Compress(b, once[HeaderSize:], DefaultLevel)
			if err != nil {
				t.Fatal(err)
			}
			b = full
			attrs := byte(outer) | attrTransactional
			count := once.Count()
			b.fill(attrs, count-1, once.BaseTimestamp(), once.MaxTimestamp(), count)
			b.seal()
			if _, err := Validate(b, Rules{}); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s in %s: %v", inner, outer, err)
			}
		}
	}
}

// TestTimeBounds judges each record that has a time by the broker's clock.
func TestTimeBounds(t *testing.T) {
	const now = int64(1_700_000_000_000)
	for _, c := range []struct {
		before, after int64
		times         []int64
		ok            bool
	}{
		{0, 0, []int64{0, now + 1<<40, -1}, true},
		{1000, 0, []int64{now - 1000, now + 1<<40}, true},
		{1000, 0, []int64{now, now - 1001}, false},
		{1000, 0, []int64{-1, now - 1001}, false},
		{1000, 0, []int64{-1, -1}, true},
		{1000, 0, []int64{-5000}, false},
		{0, 500, []int64{now + 500, 5}, true},
		{0, 500, []int64{now + 501, 5}, false},
		{0, 500, []int64{-1}, true},
		{-1, -1, []int64{now}, true},
		{-1, 0, []int64{now - 1}, false},
		{0, -1, []int64{now + 1}, false},
		{1 << 62, 1 << 62, []int64{0, now}, true},
	} {
		w := NewBuilder(None, 0)
		for _, ts := range c.times {
			w.Append(Record{Timestamp: ts, Value: []byte("v")})
		}
		b, err := w.Batch()
		if err != nil {
			t.Fatal(err)
		}
		rules := Rules{Now: now, BeforeMax: c.before, AfterMax: c.after}
		if _, err := Validate(slices.Clone(b), rules); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrTimestamp) {
			t.Errorf("%d before, %d after, %v: %v", c.before, c.after, c.times, err)
		}
		rules.LogAppendTime = true
		if _, err := Validate(b, rules); err != nil {
			t.Errorf("%v with the broker's time: %v", c.times, err)
		}
	}
}

// FuzzRecode: whatever passes validation is the same in every codec.
func FuzzRecode(f *testing.F) {
	for _, c := range allCodecs {
		f.Add([]byte(odd(f, c)), byte(c+1)%5, -3)
	}
	f.Fuzz(func(t *testing.T, raw []byte, to byte, level int) {
		b := Batch(raw)
		if _, err := Validate(b, Rules{MaxDecompressed: 1 << 20}); err != nil {
			return
		}
		out, err := Recode(b, Codec(to%5), level%30, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if flat(t, out) != flat(t, b) {
			t.Fatal("the records changed")
		}
	})
}
