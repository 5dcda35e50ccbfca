package log

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// TestAppendRead walks the whole path on both file systems: append, roll, read
// from every offset, restart, read again.
func TestAppendRead(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"mem": vfs.NewMem(), "os": vfs.OS} {
		t.Run(name, func(t *testing.T) {
			dir := "data"
			if name == "os" {
				dir = t.TempDir()
			}
			d := openTest(t, fs, dir)
			l, err := d.Create(testTP, testID, small())
			must(t, err)
			fill(t, l, 500)
			check := func(l *Log) {
				t.Helper()
				for at := 0; at < 500; at += 7 {
					values, err := readAll(t, l, offsets.Offset(at))
					must(t, err)
					wantValues(t, values, at, 500)
				}
			}
			check(l)
			if segs, err := l.Segments(); err != nil || len(segs) < 10 {
				t.Fatalf("%d segments, %v", len(segs), err)
			}
			must(t, d.Close())
			d = openTest(t, fs, dir)
			if !d.CleanStart() {
				t.Fatal("start after Close is not clean")
			}
			l, ok := d.Log(testTP, testID)
			if !ok || l.End() != 500 || l.RecoveryPoint() != 500 {
				t.Fatalf("found %v, end %d, recovery point %d", ok, l.End(), l.RecoveryPoint())
			}
			l.SetConfig(small())
			check(l)
			fill(t, l, 600)
			must(t, d.Close())
			d = openTest(t, fs, dir)
			l, _ = d.Log(testTP, testID)
			values, err := readAll(t, l, 0)
			must(t, err)
			wantValues(t, values, 0, 600)
			must(t, d.Close())
		})
	}
}

func TestReadBounds(t *testing.T) {
	_, d, l := onMem(t, small())
	fill(t, l, 100)
	size := len(batch(t, 0, 5))
	for _, c := range []struct {
		at         offsets.Offset
		max        int
		end        offsets.Offset
		minOne     bool
		first, nxt offsets.Offset
	}{
		{0, 1, 100, true, 0, 5},
		{0, 1, 100, false, 0, 0},
		{7, 1, 100, true, 5, 10},
		{0, 1 << 20, 100, true, 0, 100},
		{0, 1 << 20, 12, true, 0, 10},
		{0, 1 << 20, 10, true, 0, 10},
		{0, 1 << 20, 4, true, 0, 0},
		{11, 1 << 20, 12, true, 11, 11},
		{100, 1 << 20, 100, true, 100, 100},
		{50, 1 << 20, 50, true, 50, 50},
		{60, 1 << 20, 50, true, 60, 60},
		{0, size, 100, true, 0, 5},
	} {
		r, err := l.Read(c.at, c.max, c.end, c.minOne)
		must(t, err)
		if r.Bytes > 0 && r.First != c.first || r.Next != c.nxt && !(r.Bytes == 0 && c.first == c.nxt) {
			t.Errorf("%+v: first %d next %d bytes %d", c, r.First, r.Next, r.Bytes)
		}
		if c.first == c.nxt && r.Bytes != 0 {
			t.Errorf("%+v: %d bytes", c, r.Bytes)
		}
		var sum int64
		for _, region := range r.Regions {
			sum += region.Len
		}
		if sum != int64(r.Bytes) || !c.minOne && r.Bytes > c.max {
			t.Errorf("%+v: regions of %d bytes, said %d", c, sum, r.Bytes)
		}
		r.Release()
	}
	for _, at := range []offsets.Offset{-1, 101} {
		_, err := l.Read(at, 100, 100, true)
		var out *ErrOffsetOutOfRange
		if !errors.As(err, &out) || out.Start != 0 || out.End != 100 {
			t.Errorf("read at %d: %v", at, err)
		}
	}
	must(t, d.Close())
}

// TestReadWhileAppending has readers see only whole appends.
func TestReadWhileAppending(t *testing.T) {
	_, d, l := onMem(t, small())
	done := make(chan error, 2)
	for range 2 {
		go func() {
			done <- func() error {
				for at := offsets.Offset(0); at < 1000; {
					end := l.End()
					b, err := l.ReadBytes(at, 700, end)
					if err != nil {
						return err
					}
					for len(b) > 0 {
						first, rest, err := record.Split(b)
						if err != nil {
							return err
						}
						if first.BaseOffset() != at || first.LastOffset() >= end {
							return fmt.Errorf("batch %d..%d at %d, end %d", first.BaseOffset(), first.LastOffset(), at, end)
						}
						at, b = first.LastOffset()+1, rest
					}
				}
				return nil
			}()
		}()
	}
	fill(t, l, 1000)
	for range 2 {
		must(t, <-done)
	}
	must(t, d.Close())
}

// TestOneWrite checks that an append of many batches is one write.
func TestOneWrite(t *testing.T) {
	fs, d, l := onMem(t, DefaultConfig())
	writes := 0
	fs.Inject(func(op vfs.Op, name string) error {
		if op == vfs.OpWrite && strings.HasSuffix(name, ".log") {
			writes++
		}
		return nil
	})
	batches := []record.Batch{batch(t, 0, 5), batch(t, 5, 5), batch(t, 10, 5)}
	out, err := l.Append(batches, Append{Epoch: 3, Now: testNow})
	must(t, err)
	if writes != 1 || out[2].First != 10 || out[2].Last != 14 || l.End() != 15 || batches[1].Epoch() != 3 {
		t.Fatalf("%d writes, %+v, end %d", writes, out, l.End())
	}
	fs.Inject(nil)
	must(t, d.Close())
}

func TestAppendRefuses(t *testing.T) {
	c := DefaultConfig()
	c.MaxBatchBytes = 200
	_, d, l := onMem(t, c)
	big := batch(t, 0, 50)
	_, err := l.Append([]record.Batch{batch(t, 0, 1), big}, Append{Epoch: 5, Now: testNow})
	if !errors.Is(err, ErrBatchTooLarge) || l.End() != 0 {
		t.Fatalf("large batch: %v, end %d", err, l.End())
	}
	_, err = l.Append([]record.Batch{big}, Append{Epoch: 5, Now: testNow, Internal: true})
	must(t, err)
	_, err = l.Append([]record.Batch{batch(t, 0, 1)}, Append{Epoch: 4, Now: testNow})
	if !errors.Is(err, ErrStaleEpoch) || !strings.Contains(err.Error(), "clicks/0") {
		t.Fatalf("old epoch: %v", err)
	}
	must(t, d.Close())
	if _, err := l.Append([]record.Batch{batch(t, 0, 1)}, Append{Epoch: 5}); !errors.Is(err, ErrClosed) {
		t.Fatalf("append after close: %v", err)
	}
}

func TestLogAppendTime(t *testing.T) {
	c := DefaultConfig()
	c.LogAppendTime = true
	_, d, l := onMem(t, c)
	out, err := l.Append([]record.Batch{producedBatch(t, 0, 5, 9, 0, 0)}, Append{Epoch: 1, Now: 77})
	must(t, err)
	again, err := l.Append([]record.Batch{producedBatch(t, 0, 5, 9, 0, 0)}, Append{Epoch: 1, Now: 99})
	must(t, err)
	if out[0].Timestamp != 77 || again[0].Timestamp != 77 || !again[0].Duplicate {
		t.Fatalf("%+v, again %+v", out, again)
	}
	b, err := l.ReadBytes(0, 1000, l.End())
	must(t, err)
	for _, r := range decode(t, b) {
		if r.Timestamp != 77 {
			t.Fatalf("timestamp %d", r.Timestamp)
		}
	}
	must(t, d.Close())
}

// TestRetention deletes by time and by size, honours the hold, and empties a
// log that is past retention as a whole.
func TestRetention(t *testing.T) {
	hold := NoHold
	fs := vfs.NewMem()
	dc := testDisk()
	dc.Hold = func(*Log) offsets.Offset { return hold }
	d, err := OpenDisk(fs, "data", dc)
	must(t, err)
	c := small()
	c.RetentionMs = 1000
	l, err := d.Create(testTP, testID, c)
	must(t, err)
	fill(t, l, 500)
	tick := func(ms int64) { t.Helper(); must(t, d.Tick(time.UnixMilli(testNow+ms))) }
	tick(1000)
	if l.Start() != 0 {
		t.Fatalf("start %d: nothing is old enough", l.Start())
	}
	hold = 150
	tick(1300)
	if l.Start() == 0 || l.Start() > 150 {
		t.Fatalf("start %d, want in 1..150", l.Start())
	}
	hold = NoHold
	tick(1300)
	segs, err := l.Segments()
	must(t, err)
	if l.Start() < 200 || l.Start() > 300 || segs[0].MaxTimestamp < testNow+300 {
		t.Fatalf("start %d, oldest segment %+v", l.Start(), segs[0])
	}
	values, err := readAll(t, l, l.Start())
	must(t, err)
	wantValues(t, values, int(l.Start()), 500)
	c.RetentionMs, c.RetentionBytes = -1, 5000
	l.SetConfig(c)
	tick(1300)
	if size := l.Size(); size < 5000 || size > 7100 {
		t.Fatalf("size %d, want a segment above 5000 at most", size)
	}
	c.RetentionMs, c.RetentionBytes = 1000, -1
	l.SetConfig(c)
	tick(1 << 40)
	if l.Start() != 500 || l.End() != 500 || l.Size() != 0 {
		t.Fatalf("start %d end %d size %d", l.Start(), l.End(), l.Size())
	}
	fill(t, l, 510)
	must(t, d.Close())
	_, l = reopen(t, fs)
	if l.Start() != 500 || l.End() != 510 {
		t.Fatalf("after restart: start %d end %d", l.Start(), l.End())
	}
	entries, err := fs.ReadDir("data/clicks-0")
	must(t, err)
	if len(entries) > 6 {
		t.Fatalf("files left behind: %v", entries)
	}
}

// TestCompactOnlyKeeps: a compacted topic is kept whole.
func TestCompactOnlyKeeps(t *testing.T) {
	c := small()
	c.Compact, c.Delete, c.RetentionMs = true, false, 1
	_, d, l := onMem(t, c)
	fill(t, l, 200)
	must(t, d.Tick(time.UnixMilli(testNow+1<<40)))
	if l.Start() != 0 {
		t.Fatalf("start %d", l.Start())
	}
	must(t, d.Close())
}

func TestRollByTime(t *testing.T) {
	c := DefaultConfig()
	c.SegmentMs = 1000
	_, d, l := onMem(t, c)
	for i, now := range []int64{0, 500, 999, 1000, 1500, 2000} {
		_, err := l.Append([]record.Batch{batch(t, i, 1)}, Append{Epoch: 1, Now: testNow + now})
		must(t, err)
	}
	segs, err := l.Segments()
	must(t, err)
	if len(segs) != 3 || segs[1].Base != 3 || segs[2].Base != 5 {
		t.Fatalf("segments %+v", segs)
	}
	must(t, d.Close())
}

func TestDeleteBefore(t *testing.T) {
	fs, d, l := onMem(t, small())
	fill(t, l, 300)
	must(t, l.DeleteBefore(123))
	must(t, l.DeleteBefore(50)) // changes nothing
	var out *ErrOffsetOutOfRange
	if err := l.DeleteBefore(301); !errors.As(err, &out) {
		t.Fatalf("beyond the end: %v", err)
	}
	check := func(l *Log) {
		t.Helper()
		if l.Start() != 123 {
			t.Fatalf("start %d", l.Start())
		}
		if _, err := l.Read(122, 100, 300, true); !errors.As(err, &out) {
			t.Fatalf("read below the start: %v", err)
		}
		values, err := readAll(t, l, 123)
		must(t, err)
		wantValues(t, values, 123, 300)
	}
	check(l)
	_, crashed := reopen(t, fs.CrashClone(nil))
	check(crashed)
	must(t, d.Close())
	_, l = reopen(t, fs)
	check(l)
}

// TestRegionsOutliveTheirSegment keeps a file open that a reader still sends.
func TestRegionsOutliveTheirSegment(t *testing.T) {
	fs := vfs.OS
	dir := t.TempDir()
	d := openTest(t, fs, dir)
	l, err := d.Create(testTP, testID, small())
	must(t, err)
	fill(t, l, 300)
	r, err := l.Read(0, 500, 300, true)
	must(t, err)
	must(t, l.DeleteBefore(300))
	must(t, d.Delete(l))
	buf := make([]byte, r.Regions[0].Len)
	_, err = r.Regions[0].File.ReadAt(buf, r.Regions[0].Pos)
	must(t, err)
	if got := decode(t, buf); string(got[0].Value) != string(value(0)) {
		t.Fatalf("read %q", got[0].Value)
	}
	if fd, ok := r.Regions[0].File.Fd(); !ok || fd == 0 {
		t.Fatal("no descriptor to send from")
	}
	file := r.Regions[0].File
	r.Release()
	if _, err := file.ReadAt(buf, 0); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("the file is still open: %v", err)
	}
	if n := d.files.count(); n != 0 {
		t.Fatalf("%d files open", n)
	}
	if _, err := os.Stat(dir + "/clicks-0"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("folder: %v", err)
	}
	must(t, d.Close())
}

// TestOpenFileBudget runs many logs with few files open.
func TestOpenFileBudget(t *testing.T) {
	c := testDisk()
	c.MaxOpenFiles = 8
	d, err := OpenDisk(vfs.NewMem(), "data", c)
	must(t, err)
	var logs []*Log
	for i := range 50 {
		l, err := d.Create(offsets.TopicPartition{Topic: "many", Partition: int32(i)}, testID, small())
		must(t, err)
		logs = append(logs, l)
	}
	for range 3 {
		for _, l := range logs {
			fill(t, l, int(l.End())+100)
		}
	}
	for _, l := range logs {
		values, err := readAll(t, l, 0)
		must(t, err)
		wantValues(t, values, 0, 300)
		if n := d.files.count(); n > 8 {
			t.Fatalf("%d files open", n)
		}
	}
	must(t, d.Close())
}

// TestNoSpace: a full disk refuses appends whole, reads go on, and all is well
// when there is room again.
func TestNoSpace(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpAllocate, vfs.OpWrite, vfs.OpCreate} {
		t.Run(string(op), func(t *testing.T) {
			fs, d, l := onMem(t, small())
			must(t, d.SetBrokerEpoch(1))
			appendOne(t, l, producedBatch(t, 0, 5, 7, 0, 0))
			fs.Inject(func(o vfs.Op, name string) error {
				if o != op {
					return nil
				}
				if o == vfs.OpWrite {
					return &vfs.PartialWrite{N: 10, Err: syscall.ENOSPC}
				}
				return syscall.ENOSPC
			})
			var err error
			end := l.End()
			for seq := int32(5); err == nil && seq < 5000; seq += 5 {
				end = l.End()
				_, err = l.Append([]record.Batch{producedBatch(t, int(end), 5, 7, 0, seq)}, Append{Epoch: 1, Now: testNow})
			}
			if !errors.Is(err, ErrNoSpace) || l.End() != end {
				t.Fatalf("append: %v, end %d, was %d", err, l.End(), end)
			}
			values, rerr := readAll(t, l, 0)
			must(t, rerr)
			wantValues(t, values, 0, int(end))
			fs.Inject(nil)
			appendOne(t, l, producedBatch(t, int(end), 5, 7, 0, int32(end))) // the sequence was not used up
			select {
			case err := <-d.Failed():
				t.Fatalf("a full disk failed the directory: %v", err)
			default:
			}
			must(t, d.Close())
			_, l = reopen(t, fs)
			values, rerr = readAll(t, l, 0)
			must(t, rerr)
			wantValues(t, values, 0, int(end)+5)
		})
	}
}

// TestFirstErrorEndsWriting: an I/O error is never retried, not even where the
// second try would succeed: what the first one lost stays lost.
func TestFirstErrorEndsWriting(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync} {
		t.Run(string(op), func(t *testing.T) {
			c := small()
			c.FlushMessages = 1
			fs, d, l := onMem(t, c)
			fill(t, l, 20)
			broken := true
			fs.Inject(func(o vfs.Op, name string) error {
				if o == op && broken && strings.HasSuffix(name, ".log") {
					broken = false
					return syscall.EIO
				}
				return nil
			})
			_, err := l.Append([]record.Batch{batch(t, 20, 5)}, Append{Epoch: 1, Now: testNow})
			if !errors.Is(err, syscall.EIO) || !errors.Is(err, ErrFailed) {
				t.Fatalf("append: %v", err)
			}
			if err := <-d.Failed(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "clicks-0/0") {
				t.Fatalf("failed with %v", err)
			}
			if _, err := l.Append([]record.Batch{batch(t, 25, 5)}, Append{Epoch: 1, Now: testNow}); !errors.Is(err, ErrFailed) {
				t.Fatalf("append after the error: %v", err)
			}
			if err := l.Flush(); op == vfs.OpSync && !errors.Is(err, ErrFailed) {
				t.Fatalf("flush after the error: %v", err)
			}
			if _, err := l.ReadBytes(0, 1000, 20); err != nil {
				t.Fatalf("read after the error: %v", err)
			}
			if err := d.Close(); !errors.Is(err, ErrFailed) {
				t.Fatalf("close: %v", err)
			}
			d, _ = reopen(t, fs)
			if d.CleanStart() || d.SameBoot() {
				t.Fatal("the start after a failure is taken for a clean one")
			}
		})
	}
}

func TestReadError(t *testing.T) {
	fs, d, l := onMem(t, small())
	fill(t, l, 100)
	fs.Inject(func(op vfs.Op, name string) error {
		if op == vfs.OpRead {
			return syscall.EIO
		}
		return nil
	})
	if _, err := l.ReadBytes(33, 1000, 100); !errors.Is(err, syscall.EIO) {
		t.Fatalf("read: %v", err)
	}
	fs.Inject(nil)
	must(t, d.Close())
}

func TestSecondProcessIsRefused(t *testing.T) {
	fs, d, _ := onMem(t, small())
	if _, err := OpenDisk(fs, "data", testDisk()); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "data directory data") {
		t.Fatalf("second open: %v", err)
	}
	must(t, d.Close())
	d = openTest(t, fs, "data")
	must(t, d.Close())
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		name  string
		topic string
		part  int32
		ok    bool
	}{
		{"clicks-0", "clicks", 0, true},
		{"a-b-12", "a-b", 12, true},
		{"__consumer_offsets-49", "__consumer_offsets", 49, true},
		{"clicks--1", "clicks-", 1, true},
		{"clicks-01", "", 0, false},
		{"-1", "", 0, false},
		{"controller", "", 0, false},
		{"clicks-0.123-stray", "", 0, false},
		{"clicks-99999999999", "", 0, false},
	} {
		tp, ok := parseFolderName(c.name)
		if ok != c.ok || ok && (tp.Topic != c.topic || tp.Partition != c.part || folderName(tp) != c.name) {
			t.Errorf("%s: %v %v", c.name, tp, ok)
		}
	}
	if ms, ok := parseAsideName(asideName("a.b-1", 42, straySuffix), straySuffix); !ok || ms != 42 {
		t.Errorf("aside name: %d %v", ms, ok)
	}
	if o, ok := parseOffsetName("00000000000000000042.log", ".log"); !ok || o != 42 {
		t.Errorf("offset name: %d %v", o, ok)
	}
}

var _ io.Closer = (*Disk)(nil)

// TestReadersThatHaveKeptUpSearchNothing: who asks for what was appended last is
// told where it is without a look into the files, also after the log was cut,
// rolled or opened again.
func TestReadersThatHaveKeptUpSearchNothing(t *testing.T) {
	fs, d, l := onMem(t, small())
	defer func() { must(t, d.Close()) }()
	var reads atomic.Int64
	fs.Inject(func(op vfs.Op, _ string) error {
		if op == vfs.OpRead {
			reads.Add(1)
		}
		return nil
	})
	for n := range 200 {
		if n%17 == 16 {
			must(t, l.Truncate(l.End()-7))
		}
		at := l.End()
		appendOne(t, l, batch(t, int(at), 5))
		reads.Store(0)
		r, err := l.Read(at, 1<<20, l.End(), true)
		must(t, err)
		if reads.Load() > 0 {
			t.Fatalf("append %d: %d reads of files before the batch at %d was found", n, reads.Load(), at)
		}
		r.Release()
		got, err := readAll(t, l, at)
		must(t, err)
		wantValues(t, got, int(at), int(at)+5)
	}
	got, err := readAll(t, l, 0)
	must(t, err)
	wantValues(t, got, 0, int(l.End()))
}
