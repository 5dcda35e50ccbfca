package log

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
)

// dirtyLog makes a log of about 100 bytes a record on a file system, of which
// every record has ten updates.
func dirtyLog(tb testing.TB, fs vfs.FS, dir string, codec record.Codec, records, inBatch int) (*Disk, *Log) {
	tb.Helper()
	d, err := OpenDisk(fs, dir, testDisk())
	must(tb, err)
	c := DefaultConfig()
	c.Compact, c.Delete, c.MinCleanableRatio, c.SegmentBytes = true, false, 0, 32<<20
	l, err := d.Create(testTP, testID, c)
	must(tb, err)
	rnd := rand.New(rand.NewPCG(3, 4))
	w := record.NewBuilder(codec, 0)
	value := make([]byte, 80)
	for i := range records {
		for j := range value {
			value[j] = "abcdefgh"[rnd.IntN(8)]
		}
		w.Append(record.Record{Timestamp: testNow + int64(i), Key: fmt.Appendf(nil, "user-%d", rnd.IntN(records/10)), Value: value})
		if w.Count() == inBatch {
			b, err := w.Batch()
			must(tb, err)
			w.Reset()
			appendOne(tb, l, b)
		}
	}
	roll(tb, l)
	return d, l
}

// cpu is the processor time of the process, of users and system.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var u unix.Rusage
	must(tb, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkClean tells how many bytes of log a processor second compacts, each
// of them read twice: once for the keys, once to write what stays.
func BenchmarkClean(b *testing.B) {
	for _, codec := range []record.Codec{record.None, record.LZ4, record.Zstd} {
		for _, inBatch := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d", codec, inBatch), func(b *testing.B) {
				var spent time.Duration
				var bytes, records int64
				for range b.N {
					b.StopTimer()
					d, l := dirtyLog(b, vfs.OS, b.TempDir(), codec, 500_000, inBatch)
					must(b, l.Flush())
					bytes += l.Size()
					b.StartTimer()
					began := cpu(b)
					d.cleaner.round(testNow)
					spent += cpu(b) - began
					b.StopTimer()
					m := d.CleanMetrics()
					records += m.KeptRecords + m.RemovedRecords
					must(b, d.Close())
					b.StartTimer()
				}
				b.ReportMetric(float64(bytes)/1e6/spent.Seconds(), "MB/cpu-s")
				b.ReportMetric(float64(spent.Nanoseconds())/float64(records), "cpu-ns/record")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// TestCleanMemory: a run takes memory for the keys of a log, not for its
// records.
func TestCleanMemory(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	const records = 100_000
	d, _ := dirtyLog(t, vfs.OS, t.TempDir(), record.None, records, 10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d.cleaner.round(testNow)
	runtime.ReadMemStats(&after)
	m := d.CleanMetrics()
	if m.RemovedRecords < records/2 || m.Failures > 0 {
		t.Fatalf("%+v", m)
	}
	if n := after.Mallocs - before.Mallocs; n > records/20 {
		t.Errorf("%d allocations for %d records", n, records)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 12<<20 {
		t.Errorf("%d bytes allocated for %d records of %d keys", n, records, records/10)
	}
	must(t, d.Close())
}

// TestCleanPace: with a rate compaction takes its time, and stops at once when
// the disk closes.
func TestCleanPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := testDisk()
		config.CleanBytesPerSecond = 100
		d, err := OpenDisk(vfs.NewMem(), "data", config)
		must(t, err)
		l, err := d.Create(testTP, testID, compacted())
		must(t, err)
		for i := range 100 {
			appendOne(t, l, keyed(t, record.None, put("a", fmt.Sprint(i))))
		}
		roll(t, l)
		began := time.Now()
		clean(d, 0)
		m := d.CleanMetrics()
		want := time.Duration(m.ReadBytes+m.WrittenBytes) * time.Second / 100
		if took := time.Since(began); m.Runs != 1 || took < want-time.Second || took > want+time.Second {
			t.Errorf("%d runs, %d bytes in %v, want %v", m.Runs, m.ReadBytes+m.WrittenBytes, took, want)
		}
		appendOne(t, l, keyed(t, record.None, put("a", "last")))
		roll(t, l)
		must(t, d.Tick(time.UnixMilli(testNow)))
		synctest.Wait() // it has begun, and waits
		began = time.Now()
		must(t, d.Close())
		if took := time.Since(began); took > 0 || d.CleanMetrics().Runs != 1 {
			t.Errorf("closed after %v, %d runs", took, d.CleanMetrics().Runs)
		}
	})
}
