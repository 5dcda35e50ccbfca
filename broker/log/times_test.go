package log

import (
	"math/rand/v2"
	"testing"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// TestOffsetForTime compares lookups with a plain search, over batches of all
// codecs whose times jump about, before and after a restart.
func TestOffsetForTime(t *testing.T) {
	c := small()
	fs, d, l := onMem(t, c)
	rnd := rand.New(rand.NewPCG(1, 2))
	var times []int64
	for i := range 120 {
		w := record.NewBuilder(record.Codec(i%5), 0)
		for range 1 + rnd.IntN(6) {
			ts := testNow + int64(i*100) + rnd.Int64N(1000) - 500
			times = append(times, ts)
			w.Append(record.Record{Timestamp: ts, Value: value(i)})
		}
		b, err := w.Batch()
		must(t, err)
		_, err = l.Append([]record.Batch{b}, Append{Epoch: offsets.Epoch(i / 10), Now: testNow})
		must(t, err)
	}
	check := func(l *Log, start, end int) {
		t.Helper()
		for ts := testNow - 1000; ts < testNow+13000; ts += 37 {
			want := start
			for want < end && times[want] < ts {
				want++
			}
			at, got, epoch, found, err := l.OffsetForTime(ts, offsets.Offset(end))
			must(t, err)
			if found != (want < end) || found && (at != offsets.Offset(want) || got != times[want] || epoch != l.EpochAt(at)) {
				t.Fatalf("time %d below %d: %d (%d) epoch %d %v, want %d", ts, end, at, got, epoch, found, want)
			}
		}
		greatest := start
		for i := start; i < end; i++ {
			if times[i] > times[greatest] {
				greatest = i
			}
		}
		at, got, _, found, err := l.MaxTimestampOffset(offsets.Offset(end))
		must(t, err)
		if start < end && (!found || at != offsets.Offset(greatest) || got != times[greatest]) {
			t.Fatalf("greatest in %d..%d: %d (%d) %v, want %d (%d)", start, end, at, got, found, greatest, times[greatest])
		}
	}
	n := len(times)
	for _, end := range []int{n, n - 1, n / 2, n/2 + 1, 3} {
		check(l, 0, end)
	}
	_, killed := reopen(t, fs.CrashClone(nil))
	check(killed, 0, n)
	must(t, d.Close())
	d, l = reopen(t, fs)
	check(l, 0, n)
	l.SetConfig(c)
	must(t, l.Truncate(offsets.Offset(n*2/3)))
	times = times[:l.End()]
	n = len(times)
	check(l, 0, n)
	must(t, l.DeleteBefore(offsets.Offset(n/3+1)))
	check(l, n/3+1, n)
	check(l, n/3+1, n-2)
	must(t, d.Close())
}

func TestMaxTimestampOfNothing(t *testing.T) {
	_, d, l := onMem(t, small())
	if _, _, _, found, err := l.MaxTimestampOffset(0); found || err != nil {
		t.Fatalf("%v %v", found, err)
	}
	if _, _, _, found, err := l.OffsetForTime(0, 0); found || err != nil {
		t.Fatalf("%v %v", found, err)
	}
	must(t, d.Close())
}
