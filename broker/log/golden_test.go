package log

import (
	"encoding/hex"
	"errors"
	"flag"
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

var rewriteGolden = flag.Bool("rewrite", false, "write the golden files anew")

// goldenDisk makes a directory with one of everything.
func goldenDisk(t *testing.T) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem()
	c := testDisk()
	d, err := OpenDisk(fs, "data", c)
	must(t, err)
	must(t, d.SetMeta(Meta{ClusterID: "c1", NodeID: 1, DirectoryID: "d1"}))
	must(t, d.SetBrokerEpoch(12))
	config := small()
	config.SegmentBytes, config.IndexInterval = 600, 150
	l, err := d.Create(testTP, testID, config)
	must(t, err)
	for i := range 3 {
		appendOne(t, l, producedBatch(t, 5*i, 5, 4711, 2, int32(5*i)))
	}
	must(t, d.Assign([]Assignment{{l, 2}}))
	gz, err := record.Recode(batch(t, 15, 5), record.Gzip, 0, 0)
	must(t, err)
	appendOne(t, l, gz)
	marker, err := record.Marker(false, 4711, 2, 8, testNow)
	must(t, err)
	appendOne(t, l, marker)
	must(t, l.DeleteBefore(3))
	must(t, l.Truncate(22))
	must(t, d.Close())
	return fs
}

// TestGolden pins every byte of every kind of file, and what Dump says of it.
func TestGolden(t *testing.T) {
	fs := goldenDisk(t)
	var names []string
	for _, dir := range []string{"data", "data/clicks-0"} {
		entries, err := fs.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if !e.IsDir() && e.Name() != lockName {
				names = append(names, path.Join(dir, e.Name()))
			}
		}
	}
	seen := map[string]bool{}
	for _, name := range names {
		b, err := vfs.ReadFile(fs, name)
		must(t, err)
		var w strings.Builder
		err = Dump(fs, name, DumpOptions{}, func(line []slog.Attr) error {
			fmt.Fprintln(&w, DumpText(line))
			return nil
		})
		must(t, err)
		fmt.Fprintf(&w, "\n%s", hex.Dump(b))
		golden := filepath.Join("testdata", path.Base(name)+".golden")
		if *rewriteGolden {
			must(t, os.WriteFile(golden, []byte(w.String()), 0o644))
		}
		want, err := os.ReadFile(golden)
		must(t, err)
		if w.String() != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, w.String(), want)
		}
		seen[path.Ext(name)] = true
	}
	for _, kind := range []string{logSuffix, indexSuffix, timeSuffix, snapshotSuffix, ".properties", ".metadata", ""} {
		if !seen[kind] {
			t.Errorf("no file of kind %q among %v", kind, names)
		}
	}
}

// TestGoldenIsRead opens the files as they are in testdata.
func TestGoldenIsRead(t *testing.T) {
	fs := vfs.NewMem()
	must(t, fs.MkdirAll("data/clicks-0", 0o755))
	goldens, err := filepath.Glob("testdata/*.golden")
	must(t, err)
	for _, golden := range goldens {
		text, err := os.ReadFile(golden)
		must(t, err)
		name := strings.TrimSuffix(filepath.Base(golden), ".golden")
		if strings.HasPrefix(name, "0") || name == partitionName {
			name = "clicks-0/" + name
		}
		_, dump, _ := strings.Cut("\n"+string(text), "\n\n")
		must(t, vfs.Replace(fs, path.Join("data", name), undump(t, dump)))
	}
	d := openTest(t, fs, "data")
	if m := d.Meta(); !d.CleanStart() || d.PreviousBrokerEpoch() != 12 || m.ClusterID != "c1" || m.NodeID != 1 || m.DirectoryID != "d1" {
		t.Fatalf("clean %v, broker epoch %d, meta %+v", d.CleanStart(), d.PreviousBrokerEpoch(), d.Meta())
	}
	l, ok := d.Log(testTP, testID)
	if !ok || l.Start() != 3 || l.End() != 21 || l.Epoch() != 2 {
		t.Fatalf("%v: %d..%d epoch %d", ok, l.Start(), l.End(), l.Epoch())
	}
	if got := tryProduce(t, l, 4711, 2, 10); got != "dup 10" {
		t.Fatal(got)
	}
	at, _, _, found, err := l.OffsetForTime(testNow+17, 21)
	if err != nil || !found || at != 17 {
		t.Fatalf("time lookup: %d %v %v", at, found, err)
	}
	must(t, d.Close())
}

// undump reads what hex.Dump wrote.
func undump(t *testing.T, dump string) []byte {
	t.Helper()
	var out []byte
	for line := range strings.Lines(dump) {
		if len(line) < 60 {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(line[9:58], " ", ""))
		must(t, err)
		out = append(out, b...)
	}
	return out
}

// TestDumpDamage prints what is sound around the damage, and tells of it.
func TestDumpDamage(t *testing.T) {
	fs := goldenDisk(t)
	entries, err := fs.ReadDir("data/clicks-0")
	must(t, err)
	for _, e := range append(entries, nil) {
		name := "data/" + checkpointName
		if e != nil {
			name = "data/clicks-0/" + e.Name()
		}
		b, err := vfs.ReadFile(fs, name)
		must(t, err)
		if len(b) < 40 || strings.HasSuffix(name, indexSuffix) || strings.HasSuffix(name, timeSuffix) || strings.HasSuffix(name, partitionName) {
			continue
		}
		b[len(b)/2] ^= 1
		must(t, vfs.Replace(fs, name, b))
		lines := 0
		err = Dump(fs, name, DumpOptions{}, func([]slog.Attr) error { lines++; return nil })
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Path != name {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasSuffix(name, logSuffix) && lines == 0 {
			t.Errorf("%s: nothing printed", name)
		}
	}
	if err := Dump(fs, "data/clicks-0/foreign", DumpOptions{}, nil); err == nil {
		t.Error("a foreign file")
	}
	stop := errors.New("stop")
	for _, name := range []string{"data/" + epochsName, "data/clicks-0/" + offsetName(0, logSuffix), "data/" + metaName} {
		if err := Dump(fs, name, DumpOptions{}, func([]slog.Attr) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckpointDamage(t *testing.T) {
	key := logKey{testID, 3}
	good := encodePoints(journalMark{2, 88}, []logKey{key}, map[logKey]point{key: {5, 77, true}})
	mark, back, err := decodePoints(good)
	if err != nil || mark != (journalMark{2, 88}) || back[key] != (point{5, 77, true}) {
		t.Fatalf("%+v, %v", back, err)
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x04
		if _, _, err := decodePoints(bad); !errors.Is(err, errCheckpoint) {
			t.Fatalf("flipped byte %d: %v", i, err)
		}
		if _, _, err := decodePoints(good[:i]); !errors.Is(err, errCheckpoint) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

// FuzzFiles reads rubbish as each kind of file.
func FuzzFiles(f *testing.F) {
	key := logKey{testID, 3}
	f.Add(encodePoints(journalMark{2, 88}, []logKey{key}, map[logKey]point{key: {5, 77, true}}))
	f.Add(encodeSnapshot(&producers{byID: map[int64]*producer{7: {n: 1, txnFirst: noTxn}}}))
	f.Add(journalEntry{journalAssign, key, 4, 9}.append([]byte(journalMagic + "\x00\x00\x00\x01\x00\x00\x00\x01")))
	f.Add(encodePartition(testID))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, points, err := decodePoints(b); err == nil && len(points) > len(b) {
			t.Fatal("more points than bytes")
		}
		if ps, err := decodeSnapshot(b, 0); err == nil {
			if back, err := decodeSnapshot(encodeSnapshot(&ps), 0); err != nil || len(back.byID) != len(ps.byID) {
				t.Fatalf("snapshot does not come back: %v", err)
			}
		}
		r := &remembered{cut: -1}
		if _, _, err := parseJournal(b, func(e journalEntry, _ journalMark) { r.add(e, true) }); err == nil {
			for i := 1; i < len(r.epochs); i++ {
				if r.epochs[i].Epoch <= r.epochs[i-1].Epoch || r.epochs[i].Start < r.epochs[i-1].Start {
					t.Fatalf("epochs out of order: %v", r.epochs)
				}
			}
		}
		if id, sealed, err := decodePartition(b); err == nil && sealed {
			if back, _, err := decodePartition(encodePartition(id)); err != nil || back != id {
				t.Fatalf("topic id does not come back: %v", err)
			}
		}
		_, _ = mendPartition(b) // must not panic
	})
}

// FuzzRecovery puts rubbish behind sound batches: they must remain, and what
// is read must be whole.
func FuzzRecovery(f *testing.F) {
	f.Add([]byte("rubbish"), uint16(300))
	f.Add(make([]byte, 100), uint16(65535))
	f.Fuzz(func(t *testing.T, tail []byte, at uint16) {
		fs, _, l := onMem(t, DefaultConfig())
		fill(t, l, 20)
		segs, err := l.Segments()
		must(t, err)
		name := segs[0].Path
		size := int(l.look().size)
		crashed := fs.CrashClone(nil)
		cut := min(int(at), size)
		change(t, crashed, name, func(b []byte) []byte { return append(b[:cut:cut], tail...) })
		_, l = reopen(t, crashed)
		want := offsets.Offset(cut / (size / 4) * 5)
		if l.End() < want && cut == size {
			t.Fatalf("end %d, want %d", l.End(), want)
		}
		if cut == size && len(l.Damage()) == 0 {
			values, err := readAll(t, l, 0)
			must(t, err)
			wantValues(t, values[:20], 0, 20)
		}
	})
}
