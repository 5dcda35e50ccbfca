package log

import (
	"fmt"
	"runtime"
	"testing"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// TestTenThousandPartitions: an idle log costs less than 4 KiB, no goroutine
// and no open file beyond the budget.
func TestTenThousandPartitions(t *testing.T) {
	const n = 10_000
	fs := vfs.NewMem()
	c := testDisk()
	c.MaxOpenFiles = 100
	d, err := OpenDisk(fs, "data", c)
	must(t, err)
	for i := range n {
		l, err := d.Create(offsets.TopicPartition{Topic: "many", Partition: int32(i)}, testID, DefaultConfig())
		must(t, err)
		if i%10 == 0 {
			fill(t, l, 10)
		}
	}
	must(t, d.Close())
	before, goroutines := heapInUse(), runtime.NumGoroutine()
	d, err = OpenDisk(fs, "data", c)
	must(t, err)
	used := heapInUse() - before
	if per := used / n; per > 4096 {
		t.Errorf("an idle log takes %d bytes", per)
	} else {
		t.Logf("an idle log takes %d bytes", per)
	}
	if more := runtime.NumGoroutine() - goroutines; more > 2 {
		t.Errorf("%d goroutines", more)
	}
	if files := d.files.count(); files > 100 {
		t.Errorf("%d open files", files)
	}
	if len(d.Logs()) != n {
		t.Errorf("%d logs", len(d.Logs()))
	}
	must(t, d.Close())
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAllocations gates the hot path: a few allocations a call, none a record.
func TestAllocations(t *testing.T) {
	if raced {
		t.Skip("allocations are not counted under the race detector")
	}
	d := openTest(t, vfs.OS, t.TempDir())
	l, err := d.Create(testTP, testID, DefaultConfig())
	must(t, err)
	big := batch(t, 0, 1000)
	batches := []record.Batch{big}
	run := func() {
		if _, err := l.Append(batches, Append{Epoch: 1, Now: testNow}); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if got := testing.AllocsPerRun(200, run); got > 2 {
		t.Errorf("append allocates %.1f times", got)
	}
	at := offsets.Offset(0)
	read := func() {
		r, err := l.Read(at, 200_000, l.End(), true)
		if err != nil || r.Bytes == 0 {
			t.Fatalf("%d bytes, %v", r.Bytes, err)
		}
		at = r.Next
		if at > l.End()-10_000 {
			at = 0
		}
		r.Release()
	}
	read()
	if got := testing.AllocsPerRun(200, read); got > 2 {
		t.Errorf("read allocates %.1f times", got)
	}
	must(t, d.Close())
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			l, done := benchLog(b)
			defer done()
			batches := []record.Batch{sized(b, size)}
			b.SetBytes(int64(len(batches[0])))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Append(batches, Append{Epoch: 1, Now: testNow}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			l, done := benchLog(b)
			defer done()
			one := []record.Batch{sized(b, size)}
			for range (64 << 20) / size {
				if _, err := l.Append(one, Append{Epoch: 1, Now: testNow}); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			at := offsets.Offset(0)
			for b.Loop() {
				r, err := l.Read(at, 1<<20, l.End(), true)
				if err != nil {
					b.Fatal(err)
				}
				if at = r.Next; at >= l.End() {
					at = 0
				}
				r.Release()
			}
		})
	}
}

func benchLog(b *testing.B) (*Log, func()) {
	d := openTest(b, vfs.OS, b.TempDir())
	c := DefaultConfig()
	c.SegmentBytes = 256 << 20
	l, err := d.Create(testTP, testID, c)
	if err != nil {
		b.Fatal(err)
	}
	return l, func() {
		l.disk.failed.Store(true) // do not wait for the disk
		_ = d.Close()             // says so
	}
}

func sized(b *testing.B, size int) record.Batch {
	w := record.NewBuilder(record.None, 0)
	for w.Len() < size {
		w.Append(record.Record{Timestamp: testNow, Value: make([]byte, 200)})
	}
	out, err := w.Batch()
	if err != nil {
		b.Fatal(err)
	}
	return out
}
