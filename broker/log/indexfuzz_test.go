package log

import (
	"bytes"
	"errors"
	"testing"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
)

// FuzzIndex puts any bytes in the place of an index: every lookup is answered by
// the batches alone.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("rubbish"), false, false)
	f.Add(make([]byte, 48), true, true)
	x := &index{time: true}
	x.add(entry{testNow + 3, 2})
	x.add(entry{testNow + 1<<40, 19})
	f.Add(x.pending, true, true)
	f.Fuzz(func(t *testing.T, content []byte, timed, active bool) {
		c := DefaultConfig()
		c.SegmentBytes, c.IndexInterval, c.RetentionMs = 3000, 100, -1
		fs, d, l := onMem(t, c)
		fill(t, l, 100)
		must(t, d.Close())
		s := l.view.segments[0]
		if active {
			s = l.view.active()
		}
		name := s.name(indexSuffix)
		if timed {
			name = s.name(timeSuffix)
		}
		must(t, vfs.Replace(fs, name, content))
		d, l = reopen(t, fs)
		l.SetConfig(c)
		values, err := readAll(t, l, 0)
		must(t, err)
		wantValues(t, values, 0, 100)
		for at := int64(0); at < 100; at += 3 {
			o, ts, _, found, err := l.OffsetForTime(testNow+at, 100)
			if err != nil || !found || int64(o) != at || ts != testNow+at {
				t.Fatalf("time %d: %d at %d, %v, %v", at, o, ts, found, err)
			}
		}
		if o, _, _, _, err := l.MaxTimestampOffset(100); err != nil || o != 99 {
			t.Fatalf("greatest time at %d, %v", o, err)
		}
		if len(l.Damage()) != 0 {
			t.Fatalf("damage %+v", l.Damage())
		}
		must(t, d.Close())
	})
}

// FuzzScanner reads any bytes as a segment: what it returns is whole, lies where
// it says, and is never found before the place it was looked for.
func FuzzScanner(f *testing.F) {
	b := batch(f, 0, 3)
	f.Add(bytes.Repeat(b, 3), uint16(len(b)+1))
	f.Add(append(make([]byte, 70), b...), uint16(0))
	f.Fuzz(func(t *testing.T, content []byte, from uint16) {
		fs := vfs.NewMem()
		must(t, vfs.Replace(fs, "segment", content))
		file, size, err := openDump(fs, "segment")
		must(t, err)
		scan := newScanner(file, size, 64)
		defer scan.done()
		pos := int64(from)
		if pos >= size {
			return
		}
		if b, err := scan.batch(pos); err == nil && !bytes.Equal(b, content[pos:pos+int64(len(b))]) {
			t.Fatalf("a batch at %d is not what lies there", pos)
		} else if err != nil && !errors.Is(err, record.ErrCorrupt) {
			t.Fatal(err)
		}
		next, ok, err := scan.resync(pos, 0)
		must(t, err)
		if !ok {
			return
		}
		if b, err := scan.batch(next); next <= pos || err != nil || b.CheckCRC() != nil {
			t.Fatalf("found at %d, looking from %d: %v", next, pos, err)
		}
		must(t, file.Close())
	})
}
