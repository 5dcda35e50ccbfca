package log

import (
	"bytes"
	"math"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// TestRetentionEdges decides as Kafka does.
func TestRetentionEdges(t *testing.T) {
	later := int64(1000)
	for name, c := range map[string]struct {
		ms, bytes  int64
		at         int64 // ms after the youngest record
		future     bool  // one record of the first segment is a year ahead
		hold       offsets.Offset
		start      offsets.Offset
		emptied    bool
		activeOnly bool
	}{
		"nothing is old":             {ms: later, bytes: -1, at: 0, hold: NoHold},
		"all is old":                 {ms: later, bytes: -1, at: later + 1, hold: NoHold, start: 200, emptied: true},
		"just not":                   {ms: later, bytes: -1, at: later, hold: NoHold, start: 160},
		"kept for ever":              {ms: -1, bytes: -1, at: 1 << 40, hold: NoHold},
		"no time at all":             {ms: 0, bytes: -1, at: 1, hold: NoHold, start: 200, emptied: true},
		"no bytes at all":            {ms: -1, bytes: 0, at: 0, hold: NoHold, start: 200, emptied: true},
		"one byte":                   {ms: -1, bytes: 1, at: 0, hold: NoHold, start: 160},
		"held":                       {ms: later, bytes: 0, at: 1 << 40, hold: 100, start: 80},
		"held at the end":            {ms: later, bytes: 0, at: 1 << 40, hold: 200, start: 200, emptied: true},
		"held below the start":       {ms: later, bytes: 0, at: 1 << 40, hold: 0},
		"a time ahead keeps all":     {ms: later, bytes: -1, at: later + 1, future: true, hold: NoHold},
		"but not past size":          {ms: later, bytes: 1, at: later + 1, future: true, hold: NoHold, start: 200, emptied: true},
		"an active one alone is old": {ms: later, bytes: -1, at: later + 1, hold: NoHold, start: 200, emptied: true, activeOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			dc := testDisk()
			dc.Hold = func(*Log) offsets.Offset { return c.hold }
			d, err := OpenDisk(fs, "data", dc)
			must(t, err)
			config := DefaultConfig()
			config.RetentionMs, config.RetentionBytes = c.ms, c.bytes
			if !c.activeOnly {
				config.SegmentBytes = 6000
			}
			l, err := d.Create(testTP, testID, config)
			must(t, err)
			for first := 0; first < 200; first += 10 {
				w := record.NewBuilder(record.None, 0)
				for i := range 10 {
					ts := testNow + int64(first+i)
					if c.future && first == 10 && i == 3 {
						ts += 365 * 24 * 3600 * 1000
					}
					w.Append(record.Record{Timestamp: ts, Value: bytes.Repeat([]byte{'v'}, 130)})
				}
				b, err := w.Batch()
				must(t, err)
				appendOne(t, l, b)
			}
			if segs, err := l.Segments(); err != nil || !c.activeOnly && (len(segs) != 5 || segs[4].Base != 160) {
				t.Fatalf("%+v, %v", segs, err)
			}
			for range 2 {
				must(t, d.Tick(time.UnixMilli(testNow+199+c.at)))
				if l.Start() != c.start || l.End() != 200 || (l.Size() == 0) != c.emptied {
					t.Fatalf("log %d..%d, %d bytes", l.Start(), l.End(), l.Size())
				}
			}
			must(t, d.Close())
			_, l = reopen(t, fs)
			if l.Start() != c.start || l.End() != 200 {
				t.Fatalf("after a restart: log %d..%d", l.Start(), l.End())
			}
		})
	}
}

// TestRetentionWithoutTimes goes by the files' time where records have none.
func TestRetentionWithoutTimes(t *testing.T) {
	c := small()
	c.RetentionMs = 1000
	_, d, l := onMem(t, c)
	for l.End() < 100 {
		w := record.NewBuilder(record.None, 0)
		w.Append(record.Record{Timestamp: record.NoTimestamp, Value: bytes.Repeat([]byte{'v'}, 100)})
		b, err := w.Batch()
		must(t, err)
		appendOne(t, l, b)
	}
	must(t, d.Tick(time.Now()))
	if l.Start() != 0 {
		t.Fatalf("start %d", l.Start())
	}
	must(t, d.Tick(time.Now().Add(time.Minute)))
	if l.Start() != 100 {
		t.Fatalf("start %d a minute later", l.Start())
	}
	must(t, d.Close())
}

// TestRollByIndex begins a segment when an index is full, or an offset would lie
// too far from the segment's base for one.
func TestRollByIndex(t *testing.T) {
	c := DefaultConfig()
	c.IndexInterval, c.IndexBytes = 1, 100
	fs, d, l := onMem(t, c)
	fill(t, l, 300)
	for i, s := range l.look().segments {
		if n, m := int(s.index.written)*8+len(s.index.pending), int(s.times.written)*12+len(s.times.pending); n > 100 || m > 112 {
			t.Fatalf("segment %d has indexes of %d and %d bytes", i, n, m)
		}
	}
	if n := len(l.look().segments); n < 6 || n > 10 {
		t.Fatalf("%d segments", n)
	}
	must(t, d.Close())
	d, l = reopen(t, fs)
	values, err := readAll(t, l, 0)
	must(t, err)
	wantValues(t, values, 0, 300)
	must(t, d.Close())
}

func TestRollByOffset(t *testing.T) {
	c := DefaultConfig()
	c.IndexInterval = 1
	fs, d, l := onMem(t, c)
	far := []offsets.Offset{0, 5, math.MaxInt32 - 10, math.MaxInt32 + 3, 2*math.MaxInt32 - 1, 2*math.MaxInt32 + 20, 3 * math.MaxInt32}
	var all []byte
	for _, at := range far {
		b := batch(t, 0, 5)
		b.Stamp(at, 3)
		all = append(all, b...)
	}
	must(t, l.AppendReplica(all)) // in one piece: from a compacted log
	appendOne(t, l, batch(t, 0, 5))
	check := func(l *Log) {
		t.Helper()
		segs, err := l.Segments()
		must(t, err)
		if len(segs) < 3 {
			t.Fatalf("%+v", segs)
		}
		at := offsets.Offset(0)
		for i, want := range append(far, 3*math.MaxInt32+5) {
			r, err := l.Read(at, 1, l.End(), true)
			must(t, err)
			if r.First > want || r.Next != want+5 {
				t.Fatalf("batch %d at %d: %d..%d, want %d", i, at, r.First, r.Next, want)
			}
			r.Release()
			at = r.Next
			if r, err := l.Read(want+2, 1, l.End(), true); err != nil || r.First != want {
				t.Fatalf("batch %d: %d, %v", i, r.First, err)
			}
		}
	}
	check(l)
	_, killed := reopen(t, fs.CrashClone(nil))
	check(killed)
	must(t, d.Close())
	_, l = reopen(t, fs)
	check(l)
}

// TestNothingIsDeletedUnasked: a log that was found keeps its records until its
// topic's retention is set.
func TestNothingIsDeletedUnasked(t *testing.T) {
	fs, d, l := onMem(t, small())
	fill(t, l, 100)
	must(t, d.Close())
	d, l = reopen(t, fs)
	late := time.UnixMilli(testNow + 1<<40)
	must(t, d.Tick(late))
	if l.Start() != 0 {
		t.Fatalf("start %d before anybody set the retention", l.Start())
	}
	l.SetConfig(small())
	must(t, d.Tick(late))
	if l.Start() != 100 {
		t.Fatalf("start %d", l.Start())
	}
	must(t, d.Close())
}
