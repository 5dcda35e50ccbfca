package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// fact is one batch as it was acknowledged, and where it lies.
type fact struct {
	file  string
	pos   int
	bytes record.Batch
}

// writeForCopies makes a directory with several partitions and leaves it as a
// killed process does; half of the records are below a checkpoint.
func writeForCopies(t *testing.T, dir string) map[int][]fact {
	t.Helper()
	d := openTest(t, vfs.OS, dir)
	for p := range killPartitions {
		l, err := d.Create(killTP(p), testID, killConfig(p))
		must(t, err)
		for seq := int32(0); l.End() < 900; {
			b := killBatch(t, p, seq)
			seq += b.Count()
			_, err := l.Append([]record.Batch{b}, Append{Epoch: 1, Now: testNow})
			must(t, err)
			if l.End() > 400 && l.RecoveryPoint() < 400 {
				must(t, l.flush(l.End(), true))
				must(t, d.checkpoint())
			}
		}
	}
	copied := dir + "-killed"
	must(t, os.CopyFS(copied, os.DirFS(dir)))
	must(t, d.Close())
	facts := map[int][]fact{}
	for p := range killPartitions {
		files, err := filepath.Glob(filepath.Join(copied, folderName(killTP(p)), "*"+logSuffix))
		must(t, err)
		slices.Sort(files)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			must(t, err)
			name, err := filepath.Rel(copied, file)
			must(t, err)
			for pos := 0; pos < len(raw); {
				b, _, err := record.Split(raw[pos:])
				if err != nil {
					break // reserved space
				}
				facts[p] = append(facts[p], fact{name, pos, b})
				pos += len(b)
			}
		}
	}
	return facts
}

// wound is what was done to a copy: bytes from pos on were changed, or cut off.
type wound struct {
	file     string
	from, to int
	torn     bool
	what     string
}

// hurt damages one random file of a copy.
func hurt(t *testing.T, rnd *rand.Rand, dir string) wound {
	t.Helper()
	var files []string
	must(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != lockName && e.Name() != metaName && (strings.HasSuffix(p, logSuffix) || rnd.IntN(6) == 0) {
			if st, err := e.Info(); err == nil && st.Size() > 0 {
				files = append(files, p)
			}
		}
		return err
	}))
	file := files[rnd.IntN(len(files))]
	raw, err := os.ReadFile(file)
	must(t, err)
	name, err := filepath.Rel(dir, file)
	must(t, err)
	at := rnd.IntN(len(raw))
	w := wound{file: name, from: at, to: at + 1, what: "flipped"}
	switch rnd.IntN(4) {
	case 0:
		w.what, w.torn, w.to = "torn", true, len(raw)
		raw = raw[:at]
	case 1:
		w.what, w.from = "zeroed", at/512*512
		w.to = min(w.from+512, len(raw))
		clear(raw[w.from:w.to])
	default:
		raw[at] ^= 1 << rnd.IntN(8)
	}
	must(t, os.WriteFile(file, raw, 0o644))
	return w
}

// hits tells whether a batch lies where the wound is and was changed by it.
func (w wound) hits(dir string, f fact) bool {
	if f.file != w.file || f.pos+len(f.bytes) <= w.from || w.to <= f.pos {
		return false
	}
	raw, err := os.ReadFile(filepath.Join(dir, w.file))
	return err != nil || len(raw) < f.pos+len(f.bytes) || !bytes.Equal(raw[f.pos:f.pos+len(f.bytes)], f.bytes)
}

// TestCrashCopies tears, zeroes and flips in copies of a real directory, one
// wound each, and starts on them. Every batch the wound left whole is there, in
// its place and once; those it hit are damage that can be stepped over or, where
// nothing follows, cut off and kept as .cut; and producers are remembered by
// what is left.
func TestCrashCopies(t *testing.T) {
	origin := filepath.Join(t.TempDir(), "data")
	facts := writeForCopies(t, origin)
	counts := map[string]int{}
	for seed := range crashRuns(t, 150) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 11))
			dir := filepath.Join(t.TempDir(), "copy")
			must(t, os.CopyFS(dir, os.DirFS(origin+"-killed")))
			w := hurt(t, rnd, dir)
			hit := map[int]map[int]bool{}
			for p, all := range facts {
				hit[p] = map[int]bool{}
				for i, f := range all {
					if w.hits(dir, f) {
						hit[p][i] = true
					}
				}
			}
			kind := filepath.Ext(w.file)
			counts[w.what+" "+kind]++
			d, err := OpenDisk(vfs.OS, dir, testDisk())
			if err != nil { // of our own records, only epochs stops a start, with its name
				if filepath.Base(w.file) != epochsName || !strings.Contains(err.Error(), epochsName) {
					t.Fatalf("%+v: %v", w, err)
				}
				return
			}
			for p := range killPartitions {
				l, ok := d.Log(killTP(p), testID)
				if !ok {
					l, err = d.Create(killTP(p), testID, killConfig(p)) // as the metadata says
					must(t, err)
				}
				l.SetConfig(killConfig(p))
				checkWounded(t, l, facts[p], hit[p], fmt.Sprintf("%+v, partition %d", w, p))
			}
			d.failed.Store(true) // leave without syncing
			_ = d.Close()        // says so
		})
	}
	t.Logf("%v", counts)
}

// checkWounded reads a log as a consumer does that steps over damage.
func checkWounded(t *testing.T, l *Log, facts []fact, hit map[int]bool, when string) {
	t.Helper()
	at := map[offsets.Offset]int{}
	for i, f := range facts {
		at[f.bytes.BaseOffset()] = i
	}
	seen := map[int]bool{}
	for next := l.Start(); next < l.End(); {
		b, err := l.ReadBytes(next, 20_000, l.End())
		var corrupt *CorruptError
		if errors.As(err, &corrupt) && corrupt.Next > next {
			next = corrupt.Next
			continue
		}
		if err != nil || len(b) == 0 {
			t.Fatalf("%s: read at %d of %d: %d bytes, %v", when, next, l.End(), len(b), err)
		}
		for len(b) > 0 {
			first, rest, err := record.Split(b)
			if err != nil { // the log tells where to go on when it is asked for what lies here
				break
			}
			i, known := at[first.BaseOffset()]
			if first.CheckCRC() != nil || !known {
				next++ // a client that knows no better
				break
			}
			if seen[i] || first.LastOffset() != facts[i].bytes.LastOffset() {
				t.Fatalf("%s: batch %d..%d, seen %v", when, first.BaseOffset(), first.LastOffset(), seen[i])
			}
			seen[i] = true
			next, b = first.LastOffset()+1, rest
		}
	}
	lost := -1
	for i := range facts {
		if !seen[i] && !hit[i] && lost < 0 {
			lost = i
		}
	}
	if lost >= 0 {
		t.Fatalf("%s: batch %d..%d is gone, though nothing touched it; end %d, damage %+v", when,
			facts[lost].bytes.BaseOffset(), facts[lost].bytes.LastOffset(), l.End(), l.Damage())
	}
	last := len(facts) - 1
	for last >= 0 && hit[last] {
		last--
	}
	var want producers
	for i, f := range facts[:last+1] {
		if seen[i] {
			want.apply(f.bytes, 0)
		}
	}
	if p, q := l.producers.byID[facts[0].bytes.ProducerID()], want.byID[facts[0].bytes.ProducerID()]; q != nil {
		if p == nil || p.batches[p.n-1] != q.batches[q.n-1] || p.epoch != q.epoch {
			t.Fatalf("%s: remembered %+v, want %+v", when, p, q)
		}
	}
}
