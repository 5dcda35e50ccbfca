package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// records copies what a batch holds.
func recordsOf(t testing.TB, b Batch) []Record {
	t.Helper()
	if err := b.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	if size, err := PeekSize(b); err != nil || size != len(b) {
		t.Fatalf("size %d of %d bytes, %v", size, len(b), err)
	}
	var it Iterator
	if err := it.Reset(b); err != nil {
		t.Fatal(err)
	}
	var out []Record
	for it.Next() {
		r := *it.Record()
		r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
		headers := r.Headers
		r.Headers = nil
		for _, h := range headers {
			r.Headers = append(r.Headers, Header{bytes.Clone(h.Key), bytes.Clone(h.Value)})
		}
		out = append(out, r)
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return out
}

// randomBatch makes a batch of every kind of record.
func randomBatch(t testing.TB, rnd *rand.Rand, codec Codec) Batch {
	t.Helper()
	w := NewBuilder(codec, DefaultLevel)
	w.Producer(int64(rnd.IntN(3))-1, 4, 1<<31-3)
	w.Transactional(rnd.IntN(2) == 0)
	for i := range 1 + rnd.IntN(40) {
		r := Record{Timestamp: 1_750_000_000_000 + int64(rnd.IntN(2_000_000)-1_000_000), Key: fmt.Appendf(nil, "key %d", i)}
		if rnd.IntN(4) > 0 {
			r.Value = bytes.Repeat([]byte{'v'}, rnd.IntN(200))
		}
		for range rnd.IntN(3) {
			r.Headers = append(r.Headers, Header{Key: []byte("h"), Value: [][]byte{nil, {}, []byte("x")}[rnd.IntN(3)]})
		}
		w.Append(r)
	}
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	b.Stamp(1<<40, 7)
	if rnd.IntN(4) == 0 {
		b.SetMaxTimestamp(1_750_000_000_123, true)
	}
	return b
}

// TestFilter keeps random parts of batches, with and without a horizon, and
// compares the records with those of the whole.
func TestFilter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	var f Filter
	for i := range 400 {
		codec := Codec(i % 5)
		b := randomBatch(t, rnd, codec)
		whole := recordsOf(t, b)
		horizon := []int64{NoTimestamp, 1_750_086_400_000, 5}[rnd.IntN(3)]
		share := rnd.IntN(5)
		if err := f.Reset(b); err != nil {
			t.Fatal(err)
		}
		var want []Record
		for j := 0; f.Next(); j++ {
			r := whole[j]
			if f.Offset() != r.Offset || !bytes.Equal(f.Key(), r.Key) || f.Tombstone() != (r.Value == nil) {
				t.Fatalf("record %d: offset %d, key %q, tombstone %v; want %+v", j, f.Offset(), f.Key(), f.Tombstone(), r)
			}
			if rnd.IntN(4) < share {
				f.Keep()
				want = append(want, r)
			}
		}
		if f.Err() != nil || f.Kept() != len(want) {
			t.Fatalf("%v, %d kept, want %d", f.Err(), f.Kept(), len(want))
		}
		got, err := f.Batch(horizon)
		if err != nil {
			t.Fatal(err)
		}
		checkFiltered(t, b, got, want, horizon)
		if len(want) == len(whole) && horizon == NoTimestamp && &got[0] != &b[0] {
			t.Fatal("nothing was removed, but the batch is another")
		}
		if len(want) == 0 {
			continue
		}
		// What has a horizon keeps it when it is filtered again.
		again := append(Batch(nil), got...)
		if err := f.Reset(again); err != nil {
			t.Fatal(err)
		}
		for f.Next() {
			if f.Offset() == want[len(want)-1].Offset {
				f.Keep()
			}
		}
		if got, err = f.Batch(NoTimestamp); err != nil {
			t.Fatal(err)
		}
		checkFiltered(t, again, got, want[len(want)-1:], NoTimestamp)
	}
}

func checkFiltered(t *testing.T, b, got Batch, want []Record, horizon int64) {
	t.Helper()
	if have := recordsOf(t, got); !reflect.DeepEqual(have, want) {
		t.Fatalf("records %+v, want %+v", have, want)
	}
	if got.BaseOffset() != b.BaseOffset() || got.LastOffset() != b.LastOffset() || got.Epoch() != b.Epoch() ||
		got.ProducerID() != b.ProducerID() || got.ProducerEpoch() != b.ProducerEpoch() || got.BaseSequence() != b.BaseSequence() ||
		got.LastSequence() != b.LastSequence() || got.LogAppendTime() != b.LogAppendTime() || got.IsTransactional() != b.IsTransactional() {
		t.Fatalf("header %x, was %x", got[:HeaderSize], b[:HeaderSize])
	}
	if len(want) == 0 {
		if len(got) != HeaderSize || got.Codec() != None || got.MaxTimestamp() != b.MaxTimestamp() || got.HasDeleteHorizon() {
			t.Fatalf("header without records: %x", []byte(got))
		}
		return
	}
	latest := want[0].Timestamp
	for _, r := range want {
		latest = max(latest, r.Timestamp)
	}
	if got.Codec() != b.Codec() || got.MaxTimestamp() != latest {
		t.Fatalf("codec %s, was %s; greatest time %d, want %d", got.Codec(), b.Codec(), got.MaxTimestamp(), latest)
	}
	if has := horizon != NoTimestamp || b.HasDeleteHorizon(); got.HasDeleteHorizon() != has || horizon != NoTimestamp && got.BaseTimestamp() != horizon {
		t.Fatalf("horizon %v at %d, want %d", got.HasDeleteHorizon(), got.BaseTimestamp(), horizon)
	}
}

// TestFilterEmpty: the header of what was emptied is filtered to itself.
func TestFilterEmpty(t *testing.T) {
	var f Filter
	for codec := None; codec <= Zstd; codec++ {
		b := randomBatch(t, rand.New(rand.NewPCG(1, uint64(codec))), codec)
		if err := f.Reset(b); err != nil {
			t.Fatal(err)
		}
		empty := append(Batch(nil), f.Empty()...)
		if err := f.Reset(empty); err != nil || f.Next() || f.Err() != nil {
			t.Fatalf("%s: %v, %v", codec, err, f.Err())
		}
		if got, err := f.Batch(NoTimestamp); err != nil || !bytes.Equal(got, empty) {
			t.Errorf("%s: %x, %v; want %x", codec, []byte(got), err, []byte(empty))
		}
	}
}

// TestNoRecordsOfACodec: a batch without records and without bytes may name a
// codec; it has nothing to decompress.
func TestNoRecordsOfACodec(t *testing.T) {
	var f Filter
	var it Iterator
	for codec := None; codec <= Zstd; codec++ {
		b := sample(t, codec)[:HeaderSize]
		b.settle(0)
		if err := f.Reset(b); err != nil || f.Next() || f.Err() != nil {
			t.Errorf("%s, filtered: %v, %v", codec, err, f.Err())
		}
		if err := it.Reset(b); err != nil || it.Next() || it.Err() != nil {
			t.Errorf("%s, read: %v, %v", codec, err, it.Err())
		}
	}
}

// TestFilterDamage: what cannot be walked is an error, never a shorter batch.
func TestFilterDamage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	f := Filter{MaxDecompressed: 1 << 20}
	for range 600 {
		b := randomBatch(t, rnd, Codec(rnd.IntN(5)))
		whole := len(recordsOf(t, b))
		b[HeaderSize+rnd.IntN(len(b)-HeaderSize)] ^= byte(1 + rnd.IntN(255))
		if f.Reset(b) != nil {
			continue
		}
		n := 0
		for f.Next() {
			f.Keep()
			n++
		}
		if f.Err() == nil && n != whole {
			t.Fatalf("%d of %d records without an error", n, whole)
		}
		if _, err := f.Batch(5); f.Err() != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("batch after %v: %v", f.Err(), err)
		}
	}
}

// TestFilterAllocs: a filter that has grown allocates nothing.
func TestFilterAllocs(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	b := randomBatch(t, rand.New(rand.NewPCG(9, 9)), None)
	var f Filter
	run := func() {
		if err := f.Reset(b); err != nil {
			t.Fatal(err)
		}
		for i := 0; f.Next(); i++ {
			if i%2 == 0 {
				f.Keep()
			}
		}
		if _, err := f.Batch(5); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(100, run); n > 0 {
		t.Errorf("%v allocations a batch", n)
	}
}
