package log

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// killed is a log with three segments' worth of batches, killed without a stop;
// its files are as they were written.
func killed(t *testing.T, flushed bool) (*vfs.Mem, []Segment) {
	t.Helper()
	fs, _, l := onMem(t, small())
	fill(t, l, 100)
	if flushed {
		must(t, l.flush(l.End(), true))
		must(t, l.disk.checkpoint())
	}
	segs, err := l.Segments()
	must(t, err)
	return fs.CrashClone(nil), segs
}

func change(t *testing.T, fs vfs.FS, name string, fn func(b []byte) []byte) {
	t.Helper()
	b, err := vfs.ReadFile(fs, name)
	must(t, err)
	must(t, vfs.Replace(fs, name, fn(b)))
}

// batchAt finds the batch that holds an offset in the bytes of a segment.
func batchAt(t *testing.T, b []byte, at offsets.Offset) (pos int, size int) {
	t.Helper()
	for {
		first, rest, err := record.Split(b[pos:])
		must(t, err)
		if first.LastOffset() >= at {
			return pos, len(first)
		}
		pos = len(b) - len(rest)
	}
}

// TestTornTail cuts the last segment at every byte: the whole batches before
// remain, and what is cut off is kept.
func TestTornTail(t *testing.T) {
	fs, segs := killed(t, false)
	last := segs[len(segs)-1]
	for cut := int64(1); cut <= last.Size; cut += int64(8 / thin(8)) {
		torn := fs.CrashClone(nil)
		var whole []byte
		change(t, torn, last.Path, func(b []byte) []byte {
			whole = b[:last.Size-cut]
			return whole
		})
		want, rest := int(last.Base), whole
		for {
			b, after, err := record.Split(rest)
			if err != nil {
				break
			}
			want, rest = int(b.LastOffset())+1, after
		}
		d, l := reopen(t, torn)
		if int(l.End()) != want || len(l.Damage()) != 0 {
			t.Fatalf("cut by %d: end %d, want %d, damage %v", cut, l.End(), want, l.Damage())
		}
		saved, err := vfs.ReadFile(torn, fmt.Sprintf("%s.%d.cut", last.Path, len(whole)-len(rest)))
		if !allZero(rest) && (err != nil || !bytes.Equal(saved, rest)) || allZero(rest) && err == nil {
			t.Fatalf("cut by %d: %d bytes saved of %d: %v", cut, len(saved), len(rest), err)
		}
		fill(t, l, 110)
		must(t, d.Close())
		_, l = reopen(t, torn)
		values, err := readAll(t, l, 0)
		must(t, err)
		wantValues(t, values, 0, 110)
	}
}

// TestZeroTail takes the zeros of delayed allocation for no batches and does
// not save them.
func TestZeroTail(t *testing.T) {
	for _, n := range []int{1, 16, 60, 61, 5000, 300_000} {
		fs, segs := killed(t, false)
		last := segs[len(segs)-1]
		change(t, fs, last.Path, func(b []byte) []byte { return append(b, make([]byte, n)...) })
		d, l := reopen(t, fs)
		if l.End() != 100 || len(l.Damage()) != 0 || l.look().size != last.Size {
			t.Fatalf("%d zeros: end %d, damage %v", n, l.End(), l.Damage())
		}
		entries, err := fs.ReadDir("data/clicks-0")
		must(t, err)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), cutSuffix) {
				t.Fatalf("%d zeros: saved as %s", n, e.Name())
			}
		}
		fill(t, l, 120)
		must(t, d.Close())
	}
}

// TestDamageInTheMiddle flips a bit of each byte of one batch in turn. The log
// must serve all other batches, name the damage, and survive a restart so.
func TestDamageInTheMiddle(t *testing.T) {
	fs, segs := killed(t, false)
	mid := segs[1]
	raw, err := vfs.ReadFile(fs, mid.Path)
	must(t, err)
	at := mid.Base + 7
	pos, size := batchAt(t, raw, at)
	b := record.Batch(raw[pos : pos+size])
	from, next := b.BaseOffset(), b.LastOffset()+1
	for i := range size {
		if i >= 12 && i < 16 {
			continue // the leader epoch is under no CRC
		}
		bent := fs.CrashClone(nil)
		change(t, bent, mid.Path, func(b []byte) []byte { b[pos+i] ^= 0x20; return b })
		d, l := reopen(t, bent)
		if l.End() != 100 {
			t.Fatalf("byte %d: end %d", i, l.End())
		}
		dmg := l.Damage()
		if len(dmg) != 1 || dmg[0].From != from || dmg[0].Next != next || dmg[0].Pos != int64(pos) || dmg[0].End != int64(pos+size) {
			t.Fatalf("byte %d: damage %+v, want %d..%d at %d", i, dmg, from, next, pos)
		}
		checkDamaged(t, l, from, next, mid.Path)
		must(t, d.Close())
	}
}

// checkDamaged reads all but the damage.
func checkDamaged(t *testing.T, l *Log, from, next offsets.Offset, path string) {
	t.Helper()
	values, err := readAll(t, l, 0)
	wantValues(t, values, 0, int(from))
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Next != next || corrupt.Path != path {
		t.Fatalf("read of the damage: %v, next %d", err, corrupt.Next)
	}
	for at := from; at < next; at++ {
		if _, err := l.Read(at, 1000, l.End(), true); !errors.As(err, &corrupt) || corrupt.Next != next {
			t.Fatalf("read at %d: %v", at, err)
		}
	}
	values, err = readAll(t, l, next)
	must(t, err)
	wantValues(t, values, int(next), 100)
	r, err := l.Read(0, 1<<20, from+1, true)
	must(t, err)
	if r.Next != from {
		t.Fatalf("read up to the damage: next %d", r.Next)
	}
	r.Release()
}

// TestDamageBelowRecoveryPoint is found when it is read: lengths at once, other
// bytes by whoever checks the CRC.
func TestDamageBelowRecoveryPoint(t *testing.T) {
	fs, segs := killed(t, true)
	mid := segs[1]
	raw, err := vfs.ReadFile(fs, mid.Path)
	must(t, err)
	pos, size := batchAt(t, raw, mid.Base+7)
	b := record.Batch(raw[pos : pos+size])
	from, next := b.BaseOffset(), b.LastOffset()+1
	change(t, fs, mid.Path, func(b []byte) []byte { b[pos+8] ^= 0x40; return b })
	d, l := reopen(t, fs)
	if len(l.Damage()) != 0 || l.End() != 100 {
		t.Fatalf("damage %v, end %d", l.Damage(), l.End())
	}
	checkDamaged(t, l, from, next, mid.Path)
	if dmg := l.Damage(); len(dmg) != 1 || dmg[0].Pos != int64(pos) {
		t.Fatalf("damage %+v", dmg)
	}
	must(t, l.Truncate(from)) // another copy exists: refetch
	if l.End() != from || len(l.Damage()) != 0 {
		t.Fatalf("end %d, damage %v", l.End(), l.Damage())
	}
	fill(t, l, 130)
	values, err := readAll(t, l, 0)
	must(t, err)
	wantValues(t, values, 0, 130)
	must(t, d.Close())
}

// TestTimeLookupPassesDamage finds what lies behind a batch that is bent inside.
func TestTimeLookupPassesDamage(t *testing.T) {
	for _, i := range []int{9, record.HeaderSize + 4} { // its length, its records
		fs, segs := killed(t, true)
		mid := segs[1]
		raw, err := vfs.ReadFile(fs, mid.Path)
		must(t, err)
		pos, size := batchAt(t, raw, mid.Base+7)
		b := record.Batch(raw[pos : pos+size])
		from, next := b.BaseOffset(), b.LastOffset()+1
		change(t, fs, mid.Path, func(b []byte) []byte { b[pos+i] ^= 0x40; return b })
		d, l := reopen(t, fs)
		for ts := from - 7; ts < next+7; ts++ {
			want := ts
			if from <= ts && ts < next {
				want = next
			}
			at, _, _, found, err := l.OffsetForTime(testNow+int64(ts), 100)
			if err != nil || !found || at != want {
				t.Fatalf("byte %d, time %d: %d %v %v, want %d", i, ts, at, found, err, want)
			}
		}
		if at, _, _, found, err := l.MaxTimestampOffset(next + 2); err != nil || !found || at != next+1 {
			t.Fatalf("greatest: %d %v %v", at, found, err)
		}
		if len(l.Damage()) != 1 {
			t.Fatalf("damage %v", l.Damage())
		}
		must(t, d.Close())
	}
}

// TestDamagedTailOfAClosedSegment keeps the segments after it.
func TestDamagedTailOfAClosedSegment(t *testing.T) {
	fs, segs := killed(t, false)
	mid := segs[1]
	raw, err := vfs.ReadFile(fs, mid.Path)
	must(t, err)
	pos, _ := batchAt(t, raw, segs[2].Base-1)
	from := record.Batch(raw[pos:]).BaseOffset()
	for name, fn := range map[string]func([]byte) []byte{
		"bent":      func(b []byte) []byte { b[pos+30] ^= 1; return b },
		"cut":       func(b []byte) []byte { return b[:pos+30] },
		"missing":   func(b []byte) []byte { return b[:pos] },
		"zeros":     func(b []byte) []byte { clear(b[pos:]); return b },
		"zeros too": func(b []byte) []byte { return append(append(b[:pos:pos], raw[pos:pos+20]...), make([]byte, 900)...) },
	} {
		t.Run(name, func(t *testing.T) {
			bent := fs.CrashClone(nil)
			change(t, bent, mid.Path, fn)
			d, l := reopen(t, bent)
			checkDamaged(t, l, from, segs[2].Base, mid.Path)
			must(t, d.Close())
		})
	}
	t.Run("rubbish behind", func(t *testing.T) {
		bent := fs.CrashClone(nil)
		change(t, bent, mid.Path, func(b []byte) []byte { return append(b, "rubbish"...) })
		d, l := reopen(t, bent)
		values, err := readAll(t, l, 0)
		must(t, err)
		wantValues(t, values, 0, 100)
		if len(l.Damage()) != 0 {
			t.Fatalf("damage %+v", l.Damage())
		}
		must(t, d.Close())
	})
}

// TestDamageToTheEnd puts later segments aside when nothing sound follows.
func TestDamageToTheEnd(t *testing.T) {
	fs, segs := killed(t, false)
	change(t, fs, segs[1].Path, func(b []byte) []byte { return b[:30] })
	for _, s := range segs[2:] {
		change(t, fs, s.Path, func(b []byte) []byte { return bytes.Repeat([]byte{0xee}, len(b)) })
	}
	d, l := reopen(t, fs)
	if l.End() != segs[1].Base {
		t.Fatalf("end %d, want %d", l.End(), segs[1].Base)
	}
	saved, err := vfs.ReadFile(fs, segs[2].Path+".0.cut")
	if err != nil || int64(len(saved)) != segs[2].Size {
		t.Fatalf("saved %d bytes, %v", len(saved), err)
	}
	fill(t, l, 100)
	values, err := readAll(t, l, 0)
	must(t, err)
	wantValues(t, values, 0, 100)
	must(t, d.Close())
}

// TestLostFiles makes the log work without any of the files around it.
func TestLostFiles(t *testing.T) {
	for _, clean := range []bool{true, false} {
		fs, d, l := onMem(t, small())
		fill(t, l, 100)
		segs, err := l.Segments()
		must(t, err)
		if clean {
			must(t, d.Close())
		} else {
			must(t, d.checkpoint())
		}
		names := []string{"data/" + checkpointName, "data/" + epochsName, "data/" + runningName, "data/clicks-0/"}
		entries, err := fs.ReadDir("data/clicks-0")
		must(t, err)
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), logSuffix) && e.Name() != partitionName {
				names = append(names, "data/clicks-0/"+e.Name())
			}
		}
		for _, name := range names {
			for _, how := range []string{"lost", "empty", "rubbish"} {
				bent := fs.CrashClone(nil)
				if strings.HasSuffix(name, "/") {
					continue
				}
				if _, err := bent.Stat(name); errors.Is(err, os.ErrNotExist) {
					continue
				}
				switch how {
				case "lost":
					must(t, bent.Remove(name))
				case "empty":
					must(t, vfs.Replace(bent, name, nil))
				case "rubbish":
					must(t, vfs.Replace(bent, name, []byte("rubbish, and enough of it to look like an entry or two")))
				}
				t.Run(fmt.Sprintf("clean=%v %s %s", clean, name, how), func(t *testing.T) {
					if strings.HasSuffix(name, epochsName) && how == "rubbish" {
						if _, err := OpenDisk(bent, "data", testDisk()); err == nil || !strings.Contains(err.Error(), "not an epoch journal") {
							t.Fatalf("a foreign journal: %v", err)
						}
						return
					}
					d, l := reopen(t, bent)
					for at := 0; at < 100; at += 13 {
						values, err := readAll(t, l, offsets.Offset(at))
						must(t, err)
						wantValues(t, values, at, 100)
					}
					at, _, _, found, err := l.OffsetForTime(testNow+int64(segs[1].Base), 100)
					if err != nil || !found || at != segs[1].Base {
						t.Fatalf("time lookup: %d %v %v", at, found, err)
					}
					must(t, d.Close())
				})
			}
		}
	}
}

// TestReset begins anew at an offset, also when it is cut short by a crash.
func TestReset(t *testing.T) {
	fs, d, l := onMem(t, small())
	fill(t, l, 100)
	step := 0
	fs.Inject(func(op vfs.Op, name string) error {
		switch op {
		case vfs.OpRemove, vfs.OpCreate, vfs.OpSyncDir, vfs.OpSync:
		default:
			return nil
		}
		step++
		fs.Inject(nil)
		d2, l2 := reopen(t, fs.CrashClone(nil))
		if s, e := l2.Start(), l2.End(); !(s == 0 && e == 100) && !(s == 1000 && e == 1000) {
			t.Errorf("step %d (%s %s): %d..%d", step, op, name, s, e)
		}
		must(t, d2.Close())
		return nil
	})
	if l.Reset(-1) == nil || l.Truncate(-1) == nil {
		t.Fatal("a negative offset was taken")
	}
	must(t, l.Reset(1000))
	if l.Start() != 1000 || l.End() != 1000 || l.Epoch() != offsets.NoEpoch {
		t.Fatalf("%d..%d epoch %d", l.Start(), l.End(), l.Epoch())
	}
	b := batch(t, 1000, 5)
	b.Stamp(1000, 4)
	must(t, l.AppendReplica(b))
	must(t, d.Close())
	_, l = reopen(t, fs)
	if l.Start() != 1000 || l.End() != 1005 || l.Epoch() != 4 {
		t.Fatalf("after restart: %d..%d epoch %d", l.Start(), l.End(), l.Epoch())
	}
}

// TestBatchesInRecords: records that hold batches, as an archive of segments
// does, are never taken for batches of the log.
func TestBatchesInRecords(t *testing.T) {
	inner := batch(t, 0, 3)
	inner.Stamp(1_000_000, 4)
	near := batch(t, 0, 3)
	near.Stamp(102, 4)
	for name, value := range map[string][]byte{
		"far":             bytes.Repeat(inner, 3),
		"near":            bytes.Repeat(near, 3),
		"to the last one": append(bytes.Repeat([]byte("x"), 200), inner...),
	} {
		for _, how := range []string{"bent", "torn"} {
			t.Run(name+", "+how, func(t *testing.T) {
				fs, _, l := onMem(t, DefaultConfig())
				fill(t, l, 100)
				size := l.look().size
				w := record.NewBuilder(record.None, 0)
				w.Append(record.Record{Timestamp: testNow, Value: value})
				outer, err := w.Batch()
				must(t, err)
				appendOne(t, l, outer)
				crashed := fs.CrashClone(nil)
				change(t, crashed, l.file(offsetName(0, logSuffix)), func(b []byte) []byte {
					if how == "bent" {
						b[len(b)-1] ^= 1
						return b
					}
					return b[:len(b)-3]
				})
				d, l := reopen(t, crashed)
				if l.End() != 100 || len(l.Damage()) != 0 || l.look().size != size {
					t.Fatalf("end %d, damage %+v", l.End(), l.Damage())
				}
				must(t, d.Close())
			})
		}
	}
}
