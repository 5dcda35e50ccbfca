package log

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// indexed is a log of many segments with many index entries each, whose times
// are out of order, written over several starts, cuts included.
func indexed(t *testing.T) (*vfs.Mem, Config) {
	t.Helper()
	c := DefaultConfig()
	c.SegmentBytes, c.RetentionMs = 80<<10, -1
	fs, d, l := onMem(t, c)
	rnd := rand.New(rand.NewPCG(4, 5))
	for round := range 12 {
		for range 30 + rnd.IntN(60) {
			w := record.NewBuilder(record.None, 0)
			for range 1 + rnd.IntN(12) {
				w.Append(record.Record{Timestamp: testNow + rnd.Int64N(int64(l.End()+100)), Value: bytes.Repeat([]byte{'v'}, 20+rnd.IntN(300))})
			}
			b, err := w.Batch()
			must(t, err)
			appendOne(t, l, b)
		}
		if round%4 == 1 {
			must(t, l.Truncate(l.End()-offsets.Offset(rnd.IntN(400))))
		}
		must(t, d.Close())
		d, l = reopen(t, fs)
		l.SetConfig(c)
	}
	must(t, d.Close())
	return fs, c
}

// indexFiles are the index files of the log, by name.
func indexFiles(t *testing.T, fs vfs.FS) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	entries, err := fs.ReadDir("data/clicks-0")
	must(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), indexSuffix) || strings.HasSuffix(e.Name(), timeSuffix) {
			b, err := vfs.ReadFile(fs, path.Join("data/clicks-0", e.Name()))
			must(t, err)
			out[e.Name()] = b
		}
	}
	return out
}

func sameIndexes(t *testing.T, when string, fs vfs.FS, want map[string][]byte) {
	t.Helper()
	got := indexFiles(t, fs)
	if len(got) != len(want) {
		t.Fatalf("%s: %d index files, want %d", when, len(got), len(want))
	}
	for name, b := range want {
		if !bytes.Equal(got[name], b) {
			t.Fatalf("%s: %s has %d bytes, want %d, or others", when, name, len(got[name]), len(b))
		}
	}
}

// TestIndexesAreMadeAnew: whatever became of an index, lookups are right, and
// the file is what it was, byte for byte.
func TestIndexesAreMadeAnew(t *testing.T) {
	fs, c := indexed(t)
	want := indexFiles(t, fs)
	if len(want) < 12 {
		t.Fatalf("%d index files", len(want))
	}
	var names []string
	for name, b := range want {
		if len(b) >= 48 {
			names = append(names, name)
		}
	}
	truth := answers(t, fs, c, nil)
	names = names[:max(2, thin(len(names)))]
	for _, clean := range []bool{true, false} {
		for how, do := range map[string]func(b []byte) []byte{
			"emptied":       func([]byte) []byte { return nil },
			"entry lost":    func(b []byte) []byte { return b[:len(b)-24] },
			"bytes lost":    func(b []byte) []byte { return b[:len(b)-5] },
			"zero tail":     func(b []byte) []byte { return append(b[:len(b)-24:len(b)-24], make([]byte, 24)...) },
			"too long":      func(b []byte) []byte { return append(bytes.Clone(b), make([]byte, 24)...) },
			"rubbish":       func(b []byte) []byte { return bytes.Repeat([]byte{0x5a}, len(b)) },
			"another's":     func(b []byte) []byte { return want[names[0]][:24] },
			"first flipped": func(b []byte) []byte { b = bytes.Clone(b); b[3] ^= 0x40; return b },
			"last flipped":  func(b []byte) []byte { b = bytes.Clone(b); b[len(b)-2] ^= 1; return b },
		} {
			t.Run(fmt.Sprintf("%s, clean %v", how, clean), func(t *testing.T) {
				for _, name := range names {
					bent := fs.CrashClone(nil)
					if !clean {
						must(t, bent.Remove("data/"+runningName))
						must(t, vfs.Replace(bent, "data/"+runningName, running{stateRunning, "boot-1", 1}.encode()))
					}
					change(t, bent, "data/clicks-0/"+name, do)
					if got := answers(t, bent, c, nil); got != truth {
						t.Fatalf("%s: answers differ", name)
					}
					if how != "first flipped" && how != "another's" { // what is never used may stay as it is
						sameIndexes(t, name, bent, want)
					}
				}
			})
		}
	}
	t.Run("all gone", func(t *testing.T) {
		bent := fs.CrashClone(nil)
		for name := range want {
			must(t, bent.Remove("data/clicks-0/"+name))
		}
		if got := answers(t, bent, c, nil); got != truth {
			t.Fatal("answers differ")
		}
		sameIndexes(t, "all gone", bent, want)
	})
	t.Run("any byte", func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(8, 9))
		for range thin(60) {
			bent := fs.CrashClone(nil)
			name := names[rnd.IntN(len(names))]
			at, bit := rnd.IntN(len(want[name])), byte(1)<<rnd.IntN(8)
			change(t, bent, "data/clicks-0/"+name, func(b []byte) []byte { b[at] ^= bit; return b })
			if got := answers(t, bent, c, nil); got != truth {
				t.Fatalf("%s, byte %d: answers differ", name, at)
			}
		}
	})
}

// answers asks a log everything the indexes are for, and stops it in order.
func answers(t *testing.T, fs vfs.FS, c Config, look func(l *Log)) string {
	t.Helper()
	var w strings.Builder
	synctest.Test(t, func(t *testing.T) {
		d, l := reopen(t, fs)
		l.SetConfig(c)
		for at := l.Start(); at < l.End(); at += 3 {
			r, err := l.Read(at, 1, l.End(), true)
			must(t, err)
			fmt.Fprintf(&w, "%d:%d ", r.First, r.Next)
			r.Release()
		}
		for ts := int64(0); ts < int64(l.End()); ts += 5 {
			at, when, _, found, err := l.OffsetForTime(testNow+ts, l.End())
			must(t, err)
			fmt.Fprintf(&w, "%d@%d%v ", at, when, found)
		}
		at, when, _, found, err := l.MaxTimestampOffset(l.End())
		must(t, err)
		segs, err := l.Segments()
		must(t, err)
		fmt.Fprintln(&w, at, when, found, segs, len(l.Damage()))
		synctest.Wait()
		if look != nil {
			look(l)
		}
		must(t, d.Tick(time.UnixMilli(testNow)))
		must(t, d.Close())
	})
	return w.String()
}

// TestUnsyncedIndexesAreNotBelieved: a checkpoint does not pass segments whose
// indexes a power cut may still take, for a greatest time of 0 in their place
// would delete what is young.
func TestUnsyncedIndexesAreNotBelieved(t *testing.T) {
	for seed := range uint64(30) {
		c := DefaultConfig()
		c.SegmentBytes, c.RetentionMs = 40<<10, 60_000
		fs, d, l := onMem(t, c)
		d.flusher.close()
		d.flusher = &flusher{wake: make(chan struct{}, 1), stop: make(chan struct{})} // nobody seals
		for l.End() < 2000 {
			appendOne(t, l, batch(t, int(l.End()), 20))
		}
		must(t, l.flush(l.End(), false))
		must(t, d.checkpoint())
		if p := d.points[l.key()]; p.recovery != 0 {
			t.Fatalf("checkpoint %+v", p)
		}
		cut := fs.CrashClone(rand.New(rand.NewPCG(seed, 1)))
		d, l = reopen(t, cut)
		l.SetConfig(c)
		must(t, d.Tick(time.UnixMilli(testNow+50_000)))
		if l.Start() != 0 || l.End() != 2000 {
			t.Fatalf("seed %d: log %d..%d", seed, l.Start(), l.End())
		}
		must(t, d.Close())
	}
}
