package log

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// dumpOf prints a file as text, and as JSON, whose every line must be an object.
func dumpOf(t testing.TB, fs vfs.FS, name string, o DumpOptions) (text string, err error) {
	t.Helper()
	var w strings.Builder
	err = Dump(fs, name, o, func(line []slog.Attr) error {
		fmt.Fprintln(&w, DumpText(line))
		b, err := DumpJSON(line)
		var back map[string]any
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if err != nil || len(back) == 0 {
			t.Fatalf("%s: %s: %v", name, b, err)
		}
		return nil
	})
	return w.String(), err
}

// TestDumpRecords prints what a reader would see, nulls and control marks too.
func TestDumpRecords(t *testing.T) {
	fs, d, l := onMem(t, DefaultConfig())
	w := record.NewBuilder(record.Zstd, 0)
	w.Producer(7, 1, 0)
	w.Transactional(true)
	w.Append(record.Record{Timestamp: 1000, Key: []byte("k 1"), Value: []byte("v\n"), Headers: []record.Header{{Key: []byte("h"), Value: nil}, {Key: []byte("h"), Value: []byte("x")}}})
	w.Append(record.Record{Timestamp: 1001, Value: []byte{0xff, 0}})
	w.Append(record.Record{Timestamp: 999, Key: []byte{}})
	b, err := w.Batch()
	must(t, err)
	appendOne(t, l, b)
	for _, commit := range []bool{true, false} {
		m, err := record.Marker(commit, 7, 1, 12, 1002)
		must(t, err)
		appendOne(t, l, m)
	}
	must(t, d.Close())
	name := "data/clicks-0/" + offsetName(0, logSuffix)
	got, err := dumpOf(t, fs, name, DumpOptions{Records: true})
	must(t, err)
	for _, want := range []string{
		"codec=zstd", " transactional crc=",
		"\noffset=0 timestamp=1000 key=\"k 1\" value=\"v\\n\" headers=[\"h\" null \"h\" \"x\"]\n",
		"\noffset=1 timestamp=1001 key=null value=base64:/wA=\n",
		"\noffset=2 timestamp=999 key=\"\" value=null\n",
		" transactional control=commit crc=", "\noffset=3 timestamp=1002 control=commit coordinatorEpoch=12\n",
		"\noffset=4 timestamp=1002 control=abort coordinatorEpoch=12\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if got, err := dumpOf(t, fs, name, DumpOptions{Records: true, From: 2}); err != nil || strings.Count(got, "\n") != 6 || strings.Contains(got, "offset=1 ") {
		t.Errorf("from 2: %v\n%s", err, got)
	}
	decode := func(r *record.Record) ([]slog.Attr, error) {
		if r.Key == nil {
			return nil, errors.New("no key")
		}
		return []slog.Attr{slog.Int("length", len(r.Key))}, nil
	}
	var corrupt *CorruptError
	got, err = dumpOf(t, fs, name, DumpOptions{Decode: decode})
	if !errors.As(err, &corrupt) || !strings.Contains(got, "offset=0 timestamp=1000 length=3\n") || !strings.Contains(got, `undecodable="no key" key=null`) {
		t.Errorf("decoded: %v\n%s", err, got)
	}
	change(t, fs, name, func(b []byte) []byte { b[len(b)/4] ^= 1; return append(b, "rubbish"...) })
	got, err = dumpOf(t, fs, name, DumpOptions{Records: true})
	if !errors.As(err, &corrupt) || corrupt.Pos != 0 || !strings.Contains(got, "WRONG") || !strings.Contains(got, "control=abort") || !strings.Contains(got, "damaged bytes=7 error=") {
		t.Errorf("damaged: %v\n%s", err, got)
	}
}

// TestDumpKinds prints every kind of file, whole and damaged.
func TestDumpKinds(t *testing.T) {
	fs := goldenDisk(t)
	batches, err := vfs.ReadFile(fs, "data/clicks-0/"+offsetName(0, logSuffix))
	must(t, err)
	be := binary.BigEndian
	txn := be.AppendUint16(nil, 0)
	for _, v := range []uint64{4711, 10, 20, 15} {
		txn = be.AppendUint64(txn, v)
	}
	entries := func(x *index, entries ...entry) []byte {
		for _, e := range entries {
			x.add(e)
		}
		return x.pending
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
		damaged bool
	}{
		"00000000000000000000.log.cleaned":       {batches, "baseOffset=0 ", false},
		"00000000000000000000.log.15.swap":       {batches, "baseOffset=0 ", false},
		"00000000000000000000.log.77.cut":        {batches[5:], "damaged bytes=", true},
		"00000000000000000007.index.cleaned":     {entries(&index{}, entry{3, 10}, entry{9, 20}), "offset=10 pos=10\noffset=16 pos=20\n", false},
		"00000000000000000007.index":             {entries(&index{}, entry{9, 20}, entry{3, 10}), "offset=10 pos=10 DISORDER\n", true},
		"00000000000000000007.timeindex":         {entries(&index{time: true}, entry{50, 1}, entry{60, 2}), "timestamp=50 offset=8\ntimestamp=60 offset=9\n", false},
		"00000000000000000007.txnindex":          {txn, "producerId=4711 firstOffset=10 lastOffset=20 lastStableOffset=15\n", false},
		"00000000000000000008.txnindex":          {txn[:30], "", true},
		"00000000000000000009.txnindex":          {append([]byte{0, 9}, txn[2:]...), "", true},
		"00000000000000000007.snapshot":          {[]byte("rubbish"), "", true},
		cleanedName:                              {encodeCleanPoints(map[logKey]offsets.Offset{{testID, 3}: 77}), " 3 77\ncrc ", false},
		"x/" + cleanedName:                       {[]byte("cleaned 1\n"), "cleaned 1\n", true},
		ballastName:                              {nil, "size=0 reserved\n", false},
		lockName:                                 {[]byte("4711\n"), "4711\n", false},
		runningName:                              {[]byte("what\n"), "what\n", true},
		partitionName:                            {encodePartition(testID), "topic_id: " + testID.String(), false},
		"x/" + partitionName:                     {[]byte("version: 7\n"), "version: 7\n", true},
		"00000000000000000000.timeindex.cleaned": {make([]byte, 5), "", true},
		"y/" + checkpointName:                    {[]byte("recovery-points 1\n"), "recovery-points 1\n", true},
		"y/" + epochsName:                        {[]byte("SAWEPOCHx"), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			full := path.Join("dump", name)
			must(t, fs.MkdirAll(path.Dir(full), 0o755))
			must(t, vfs.Replace(fs, full, c.content))
			got, err := dumpOf(t, fs, full, DumpOptions{})
			var corrupt *CorruptError
			if !strings.Contains(got, c.want) || errors.As(err, &corrupt) != c.damaged || !c.damaged && err != nil {
				t.Fatalf("%v\n%s", err, got)
			}
			if c.damaged && corrupt.Path != full {
				t.Fatalf("the place is %s", corrupt.Path)
			}
		})
	}
}

// FuzzDump prints any bytes under any name: each line is an object, and what a
// sound prefix of a segment holds is always printed.
func FuzzDump(f *testing.F) {
	names := []string{
		"00000000000000000000.log", "00000000000000000005.log.cleaned", "00000000000000000000.log.3.cut", "00000000000000000000.log.9.swap",
		"00000000000000000005.index", "00000000000000000005.timeindex", "00000000000000000005.txnindex", "00000000000000000005.snapshot",
		epochsName, checkpointName, cleanedName, partitionName, metaName, runningName, lockName, ballastName, "foreign",
	}
	good := batch(f, 0, 3)
	f.Add(uint8(0), bytes.Repeat(good, 2), true)
	f.Add(uint8(5), make([]byte, 24), false)
	f.Add(uint8(7), encodeSnapshot(&producers{byID: map[int64]*producer{7: {n: 1, txnFirst: noTxn}}}), false)
	f.Fuzz(func(t *testing.T, kind uint8, content []byte, records bool) {
		fs := vfs.NewMem()
		name := names[int(kind)%len(names)]
		segment := strings.HasSuffix(name, logSuffix)
		if segment {
			content = append(bytes.Clone(good), content...)
		}
		must(t, vfs.Replace(fs, name, content))
		got, err := dumpOf(t, fs, name, DumpOptions{Records: records})
		if segment && (!strings.HasPrefix(got, "pos=0 ") || !strings.Contains(got, fmt.Sprintf("crc=%08x ok", good.CRC()))) {
			t.Fatalf("%v\n%s", err, got)
		}
		if name == "foreign" && !errors.Is(err, ErrNotOurs) {
			t.Fatal(err)
		}
	})
}
