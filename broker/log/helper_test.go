package log

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// testID is the topic id of the tests' one topic.
var testID = offsets.TopicID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

var testTP = offsets.TopicPartition{Topic: "clicks", Partition: 0}

// testNow is the broker's time in the tests, in milliseconds.
const testNow = int64(1_750_000_000_000)

func openTest(t testing.TB, fs vfs.FS, dir string) *Disk {
	t.Helper()
	d, err := OpenDisk(fs, dir, testDisk())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func testDisk() DiskConfig {
	return DiskConfig{
		Logger: slog.New(slog.DiscardHandler), BootID: "boot-1",
		Now: func() time.Time { return time.UnixMilli(testNow) },
	}
}

// onMem opens a disk in memory with one log.
func onMem(t testing.TB, c Config) (*vfs.Mem, *Disk, *Log) {
	t.Helper()
	fs := vfs.NewMem()
	d := openTest(t, fs, "data")
	l, err := d.Create(testTP, testID, c)
	if err != nil {
		t.Fatal(err)
	}
	return fs, d, l
}

// reopen opens a copy of a file system again and finds the log.
func reopen(t testing.TB, fs vfs.FS) (*Disk, *Log) {
	t.Helper()
	d := openTest(t, fs, "data")
	l, ok := d.Log(testTP, testID)
	if !ok {
		t.Fatal("the log is not there")
	}
	return d, l
}

// batch makes a batch of count records whose values tell their number.
func batch(t testing.TB, first, count int) record.Batch {
	return producedBatch(t, first, count, record.NoProducer, -1, record.NoSequence)
}

func producedBatch(t testing.TB, first, count int, id int64, epoch int16, seq int32) record.Batch {
	t.Helper()
	w := record.NewBuilder(record.None, 0)
	w.Producer(id, epoch, seq)
	for i := range count {
		w.Append(record.Record{Timestamp: testNow + int64(first+i), Value: value(first + i)})
	}
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func value(i int) []byte {
	return fmt.Appendf(nil, "record %d %s", i, bytes.Repeat([]byte{'x'}, i%50))
}

func appendOne(t testing.TB, l *Log, b record.Batch) Appended {
	t.Helper()
	out, err := l.Append([]record.Batch{b}, Append{Epoch: max(l.Epoch(), 1), Now: testNow})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// fill appends batches of five records up to offset end.
func fill(t testing.TB, l *Log, end int) {
	t.Helper()
	for first := int(l.End()); first < end; first += 5 {
		appendOne(t, l, batch(t, first, min(5, end-first)))
	}
}

// readAll reads the values from an offset to the end and checks that offsets
// are without gap; it stops at the first damage.
func readAll(t testing.TB, l *Log, from offsets.Offset) (values []string, damage error) {
	t.Helper()
	at := from
	for at < l.End() {
		b, err := l.ReadBytes(at, 300, l.End())
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			return values, err
		}
		if err != nil {
			t.Fatalf("read at %d: %v", at, err)
		}
		if len(b) == 0 {
			t.Fatalf("read at %d of %d: nothing", at, l.End())
		}
		for _, r := range decode(t, b) {
			if r.Offset < at {
				continue
			}
			if r.Offset != at {
				t.Fatalf("read offset %d, want %d", r.Offset, at)
			}
			values = append(values, string(r.Value))
			at++
		}
	}
	return values, nil
}

// decode copies the records out of a record set.
func decode(t testing.TB, b []byte) []record.Record {
	t.Helper()
	var out []record.Record
	for len(b) > 0 {
		first, rest, err := record.Split(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := first.CheckCRC(); err != nil {
			t.Fatal(err)
		}
		var it record.Iterator
		if err := it.Reset(first); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			r := *it.Record()
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			out = append(out, r)
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		b = rest
	}
	return out
}

// wantValues compares with the values batch makes.
func wantValues(t testing.TB, got []string, from, to int) {
	t.Helper()
	if len(got) != to-from {
		t.Fatalf("%d values, want %d..%d", len(got), from, to)
	}
	for i, v := range got {
		if v != string(value(from+i)) {
			t.Fatalf("value %d is %q", from+i, v)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// small is a config with many small segments and dense indexes.
func small() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexInterval = 2000, 100
	return c
}
