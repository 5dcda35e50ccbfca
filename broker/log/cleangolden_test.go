package log

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// goldenClean makes a directory with a compacted log: a batch with a hole, a
// header without records, and a tombstone with its horizon.
func goldenClean(t *testing.T) *vfs.Mem {
	t.Helper()
	fs, d, l := onMem(t, compacted())
	appendOne(t, l, keyed(t, record.None, put("a", "1"), put("b", "1"), put("c", "1")))
	w := record.NewBuilder(record.None, 0)
	w.Producer(4711, 2, 5)
	w.Append(kv{key: "a", value: "2", time: 3}.record())
	b, err := w.Batch()
	must(t, err)
	appendOne(t, l, b)
	appendOne(t, l, keyed(t, record.None, kv{key: "b", null: true, time: 5}, kv{key: "a", value: "3", time: 4}))
	roll(t, l)
	clean(d, 1000)
	appendOne(t, l, keyed(t, record.None, put("d", "1")))
	must(t, d.Close())
	return fs
}

// TestCleanGolden pins every byte that compaction writes.
func TestCleanGolden(t *testing.T) {
	fs := goldenClean(t)
	for _, name := range []string{
		cleanedName, "clicks-0/" + offsetName(0, logSuffix), "clicks-0/" + offsetName(0, indexSuffix), "clicks-0/" + offsetName(0, timeSuffix),
	} {
		b, err := vfs.ReadFile(fs, path.Join("data", name))
		must(t, err)
		var out strings.Builder
		must(t, Dump(fs, path.Join("data", name), DumpOptions{}, func(line []slog.Attr) error {
			fmt.Fprintln(&out, DumpText(line))
			return nil
		}))
		fmt.Fprintf(&out, "\n%s", hex.Dump(b))
		golden := filepath.Join("testdata", "compacted", path.Base(name)+".golden")
		if *rewriteGolden {
			must(t, os.WriteFile(golden, []byte(out.String()), 0o644))
		}
		want, err := os.ReadFile(golden)
		must(t, err)
		if out.String() != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, out.String(), want)
		}
	}
}

// TestCleanPoints: what is damaged or lost has everything compacted again.
func TestCleanPoints(t *testing.T) {
	points := map[logKey]offsets.Offset{{testID, 3}: 17, {testID, 12}: 1 << 40, {offsets.TopicID{9}, 0}: 0}
	b := encodeCleanPoints(points)
	got, err := decodeCleanPoints(b)
	if err != nil || len(got) != len(points) {
		t.Fatalf("%v, %v", got, err)
	}
	for k, at := range points {
		if got[k] != at {
			t.Errorf("%v: %d, want %d", k, got[k], at)
		}
	}
	for i := range b {
		bad := append([]byte(nil), b...)
		bad[i] ^= 0x20
		if _, err := decodeCleanPoints(bad); !errors.Is(err, errCleaned) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if _, err := decodeCleanPoints(b[:i]); !errors.Is(err, errCleaned) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	for name, change := range map[string]func(*vfs.Mem){
		"lost":    func(fs *vfs.Mem) { must(t, fs.Remove("data/cleaned")) },
		"damaged": func(fs *vfs.Mem) { must(t, vfs.Replace(fs, "data/cleaned", []byte("cleaned 1\n"))) },
		"too far": func(fs *vfs.Mem) {
			must(t, vfs.Replace(fs, "data/cleaned", encodeCleanPoints(map[logKey]offsets.Offset{{testID, 0}: 100})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := goldenClean(t)
			change(fs)
			d, l := reopen(t, fs)
			l.SetConfig(compacted())
			appendOne(t, l, keyed(t, record.None, put("c", "2")))
			roll(t, l)
			clean(d, 1000)
			wantLines(t, l, "4 b=∅, 5 a=3, 6 d=1, 7 c=2")
			if at, _ := d.cleaned.get(l.key()); at != 8 {
				t.Errorf("compacted to %d", at)
			}
			must(t, d.Close())
		})
	}
}

// TestCleanTruncatedMeanwhile: what a run has read is of no use once the log was
// truncated, be its segments the same.
func TestCleanTruncatedMeanwhile(t *testing.T) {
	_, d, l := onMem(t, compacted())
	for range 2 {
		for i := range 10 {
			appendOne(t, l, keyed(t, record.None, put(fmt.Sprint("k", i), fmt.Sprint(l.End()))))
		}
		roll(t, l)
	}
	c := compacted()
	job, err := d.cleaner.look(l, &c, testNow)
	must(t, err)
	if len(job.segments) != 2 || job.end != 20 {
		t.Fatalf("job %+v", job)
	}
	must(t, l.Truncate(15))
	for i := range 5 {
		appendOne(t, l, keyed(t, record.None, put(fmt.Sprint("new", i), "1")))
	}
	roll(t, l)
	want := lines(t, l)
	if err := d.cleaner.clean(job, testNow); !errors.Is(err, errGone) {
		t.Errorf("compacted what was truncated: %v", err)
	}
	if at, ok := d.cleaned.get(l.key()); ok {
		t.Errorf("compacted to %d", at)
	}
	wantLines(t, l, want)
	clean(d, 0)
	wantLines(t, l, "5 k5=5, 6 k6=6, 7 k7=7, 8 k8=8, 9 k9=9, 10 k0=10, 11 k1=11, 12 k2=12, 13 k3=13, 14 k4=14, "+
		"15 new0=1, 16 new1=1, 17 new2=1, 18 new3=1, 19 new4=1")
	must(t, d.Close())
}

// TestCleanTruncated: a log that was cut below its point is dirty from there on,
// also after a power cut, and so is a partition that was made again.
func TestCleanTruncated(t *testing.T) {
	fs, d, l := onMem(t, compacted())
	for i := range 10 {
		appendOne(t, l, keyed(t, record.None, put(fmt.Sprint(i), "1")))
	}
	roll(t, l)
	clean(d, 0)
	if at, _ := d.cleaned.get(l.key()); at != 10 {
		t.Fatalf("compacted to %d", at)
	}
	must(t, l.Truncate(4))
	for i := range 8 {
		appendOne(t, l, keyed(t, record.None, put("0", fmt.Sprint("again ", i))))
	}
	must(t, l.Flush())
	d, l = reopen(t, fs.CrashClone(nil))
	l.SetConfig(compacted())
	roll(t, l)
	clean(d, 0)
	wantLines(t, l, "1 1=1, 2 2=1, 3 3=1, 11 0=again 7")
	must(t, d.Delete(l))
	l, err := d.Create(testTP, testID, compacted())
	must(t, err)
	for i := range 20 {
		appendOne(t, l, keyed(t, record.None, put("a", fmt.Sprint(i))))
	}
	roll(t, l)
	clean(d, 0)
	wantLines(t, l, "19 a=19")
	must(t, l.Reset(5))
	for i := range 20 {
		appendOne(t, l, keyed(t, record.None, put("a", fmt.Sprint(i))))
	}
	roll(t, l)
	clean(d, 0)
	wantLines(t, l, "24 a=19")
	must(t, d.Close())
}
