package loader

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"sawlog/broker/vfs"
	"sawlog/formats"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
	"sawlog/offsets"
)

var rewriteGolden = flag.Bool("rewrite", false, "write the golden files anew")

// golden compares bytes with a file of testdata.
func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewriteGolden {
		if err := os.WriteFile(file, have, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s: the form on disk changed; have\n%s\nwant\n%s", file, have, want)
	}
}

// goldenRecords are one record of each kind, a ledger in itself.
func goldenRecords(t *testing.T) []*Record {
	t.Helper()
	load := loadRecord()
	load.Tick, load.By, load.At, load.Nonce = "2025-11-29T01:00:00Z", "ann@host", 1764378000123, "000102030405060708090a0b0c0d0e0f"
	merged := nextRecord()
	merged.Files[1].Parts = []SplitRange{
		{Topic: "views", TopicID: fakeTopic, Partition: 0, Range: offsets.Range{Start: 10, End: 20}},
		{Topic: "clicks ü \"<&>", TopicID: offsets.TopicID{1}, Partition: 3, Range: offsets.Range{Start: math.MaxInt64 - 1, End: math.MaxInt64}},
	}
	merged.Kind, merged.Why, merged.SourceMutable = Backfill, "after the outage", true
	supersede := nextRecord()
	supersede.Kind, supersede.Plan, supersede.Run = Supersede, "cccccccccccccccc", "run-3"
	supersede.Inputs[0].Range = offsets.Range{Start: 0, End: 10}
	supersede.Retires = []string{"h0/a.parquet", "h1/a.parquet", QuarantinePath(planA, 0)}
	supersede.Sealed = nil
	for i := range supersede.Files {
		supersede.Files[i] = fakeFile(supersede.Plan, strings.Replace(supersede.Files[i].Path, "b.", "c.", 1), supersede.Files[i].Hour, supersede.Files[i].Rows)
	}
	supersede.Files[2].Path = QuarantinePath(supersede.Plan, 0)
	amend := nextRecord()
	amend.Kind, amend.Profile, amend.Inputs, amend.Sealed, amend.Schema = Amend, 2, nil, nil, nil
	amend.Files = nextRecord().Files[:1]
	amend.Files[0].SHA256 = sum([]byte("amended"))
	seal := nextRecord()
	seal.Kind, seal.Files, seal.Schema, seal.Inputs, seal.Plan = Seal, nil, nil, nil, "dddddddddddddddd"
	seal.Sealed = []int64{*hourPtr(5)}
	abandon := nextRecord()
	abandon.Kind, abandon.Files, abandon.Schema, abandon.Inputs, abandon.Sealed, abandon.Plan = Abandon, nil, nil, nil, nil, "eeeeeeeeeeeeeeee"
	drop := nextRecord()
	drop.Kind, drop.Files, drop.Schema, drop.Inputs, drop.Sealed, drop.Plan = Drop, nil, nil, nil, nil, ""
	drop.Retires = []string{"h1/b.parquet"}
	compact := nextRecord()
	compact.Kind, compact.Schema, compact.Inputs, compact.Sealed, compact.Plan = Compact, nil, nil, nil, "ffffffffffffffff"
	compact.Files = []File{fakeFile(compact.Plan, "h0/d.parquet", hourPtr(0), 1)}
	compact.Retires = []string{"h0/b.parquet"}
	return []*Record{load, merged, supersede, amend, seal, abandon, drop, compact}
}

// TestRecordGolden holds the bytes of each kind of record, chained into one
// ledger, and of the fold after it.
func TestRecordGolden(t *testing.T) {
	f := NewFold()
	var ledger []byte
	for i, rec := range goldenRecords(t) {
		rec.Number, rec.Prev, rec.Published = int64(i), f.HeadHash, int64(i)-1
		if i > 0 {
			rec.Base = int64(i) - 1
		}
		data, hash, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeRecord(int64(i), data)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := back.Encode()
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%s: read and written again it is\n%s\nwas\n%s", rec.Kind, again, data)
		}
		if err := f.Apply(back, hash); err != nil {
			t.Fatal(err)
		}
		ledger = append(ledger, data...)
	}
	golden(t, "commits.jsonl", ledger)
	data, err := encodeCheckpoint(f)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "checkpoint.json", data)
	back, err := decodeCheckpoint(data)
	if err != nil {
		t.Fatal(err)
	}
	if again := mustEncode(t, back); again != string(data) {
		t.Errorf("the checkpoint read and written again is\n%s", again)
	}
	list, err := encodeFiles(goldenRecords(t)[1].Files)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "files.jsonl", list)
	if files, err := decodeFiles(list); err != nil || len(files) != 3 || len(files[1].Parts) != 2 {
		t.Errorf("files read back: %+v, %v", files, err)
	}
}

// TestCheckpointDamage flips a bit of every byte of a checkpoint, and cuts it there.
func TestCheckpointDamage(t *testing.T) {
	data, err := os.ReadFile("testdata/checkpoint.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeCheckpoint(data); err != nil {
		t.Fatal(err)
	}
	stride := 1
	if testing.Short() {
		stride = 8
	}
	for i := 0; i < len(data); i += stride {
		flipped := bytes.Clone(data)
		flipped[i] ^= 1 << (i % 8)
		if _, err := decodeCheckpoint(flipped); err == nil {
			t.Fatalf("byte %d (%q) changed it was read", i, data[max(0, i-10):min(len(data), i+10)])
		}
		if _, err := decodeCheckpoint(data[:i]); err == nil {
			t.Fatalf("cut at byte %d it was read", i)
		}
	}
}

// TestRecordDamage flips every bit of a record, and cuts it at every byte.
func TestRecordDamage(t *testing.T) {
	data, _, err := loadRecord().Encode()
	if err != nil {
		t.Fatal(err)
	}
	stride := 1
	if testing.Short() {
		stride = 8
	}
	for i := 0; i < len(data); i += stride {
		if _, err := DecodeRecord(0, data[:i]); err == nil {
			t.Fatalf("cut at byte %d it was read", i)
		}
		for bit := range 8 {
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << bit
			if rec, err := DecodeRecord(0, flipped); err == nil {
				t.Fatalf("bit %d of byte %d (%q) flipped it was read: %+v", bit, i, data[max(0, i-10):min(len(data), i+10)], rec)
			} else if !strings.Contains(err.Error(), "ledger record 0") {
				t.Fatalf("error %v does not name the record", err)
			}
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{map[string]any{"b": 1, "a": []any{true, nil, "x"}, "B": map[string]int{}}, `{"B":{},"a":[true,null,"x"],"b":1}`},
		{struct {
			Z int64  `json:"z"`
			A string `json:"a,omitempty"`
		}{Z: math.MinInt64}, `{"z":-9223372036854775808}`},
		{"<&>é\u2028\n\"", `"<&>é\u2028\n\""`},
		{[]int{}, `[]`},
		{int64(math.MaxInt64), `9223372036854775807`},
	} {
		got, err := Canonical(c.v)
		if err != nil || string(got) != c.want {
			t.Errorf("%v: %s, %v; want %s", c.v, got, err, c.want)
		}
	}
	for _, v := range []any{1.5, map[string]any{"a": []any{1e300}}, uint64(math.MaxUint64), make(chan int)} {
		if got, err := Canonical(v); err == nil {
			t.Errorf("%v became %s: only integers of 64 bits have one form", v, got)
		}
	}
	if _, err := Canonical(map[string]any{"outer": map[string]any{"inner": 0.5}}); err == nil || !strings.Contains(err.Error(), "outer: inner") {
		t.Errorf("error %v does not say where", err)
	}
}

func TestPlanID(t *testing.T) {
	p := fakePlan(NewFold(), span{0, 0, 40}, span{1, 7, 9})
	p.Writer.Profile = 1
	data, err := Canonical(p)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.json", append(data, '\n'))
	if id := PlanID(p); id != sum(data)[:16] {
		t.Errorf("id %s", id)
	}
	q := fakePlan(NewFold(), span{0, 0, 40}, span{1, 7, 9})
	q.Writer.Profile = 1
	q.Now++
	if PlanID(p) == PlanID(q) {
		t.Error("plans of different instants have one id")
	}
}

func TestLayout(t *testing.T) {
	one := &Split{Index: 3, Ranges: []SplitRange{{Topic: "views", TopicID: fakeTopic, Partition: 7, Range: offsets.Range{Start: 12, End: 34}}}}
	two := &Split{Index: 3, Ranges: append(one.Ranges, one.Ranges...)}
	carried := &Split{Index: 3, Ranges: one.Ranges, Stage: "0011223344556677"}
	for _, c := range []struct{ have, want string }{
		{RecordPath(42), "_sawlog/ledger/000000000042/commit.json"},
		{CheckpointPath(99), "_sawlog/checkpoints/000000000099.json"},
		{PlanPath(planA), "_sawlog/plans/aaaaaaaaaaaaaaaa/plan.json"},
		{FilesPath(planA, "beef"), "_sawlog/plans/aaaaaaaaaaaaaaaa/files-beef.jsonl"},
		{AttemptDir(planA, 3, "uuid"), "_sawlog/stage/aaaaaaaaaaaaaaaa/3/uuid"},
		{ResultPath("x"), "x/result.json"},
		{QuarantinePath(planA, 3), "_sawlog/quarantine/aaaaaaaa-00003.quarantine"},
		{RetiredPath(5, "dt=1/x"), "_sawlog/retired/5/dt=1/x"},
		{ManifestPath("dt=1"), "dt=1/_manifest.json"},
		{SuccessPath("dt=1"), "dt=1/_SUCCESS"},
		{FinalPath("dt=1", planA, "parquet", one), "dt=1/views-abcdef01-00007-00000000000000000012-00000000000000000034-aaaaaaaa.parquet"},
		{FinalPath("dt=1", planA, "parquet", two), "dt=1/merged-aaaaaaaa-00003.parquet"},
		{FinalPath("dt=1", carried.StagePlan(planA), "parquet", carried), "dt=1/views-abcdef01-00007-00000000000000000012-00000000000000000034-00112233.parquet"},
		{StagePath("d", "dt=1/hr=2/x.parquet"), "d/dt=1+hr=2+x.parquet.part"},
		{fileTopic("_views"), "t_views"},
		{fileTopic(".views"), "t.views"},
		{fileTopic(strings.Repeat("x", 249)), strings.Repeat("x", 100)},
	} {
		if c.have != c.want {
			t.Errorf("have %s, want %s", c.have, c.want)
		}
	}
	if strings.HasSuffix(StagePath("d", "x.parquet"), ".parquet") {
		t.Error("a staged file looks like data")
	}
	for _, name := range []string{FinalPath("", planA, "parquet", one), FinalPath("", planA, "arrow", two)} {
		if _, ok := ParseFileName(name); !ok {
			t.Errorf("%s is not known again", name)
		}
	}
	odd := *one
	odd.Ranges[0].Topic = "a-b-00000001-c"
	parsed, ok := ParseFileName(FinalPath("", planA, "parquet", &odd))
	if !ok || parsed.Topic != "a-b-00000001-c" || parsed.Partition != 7 || parsed.Start != 12 || parsed.End != 34 || parsed.Plan != "aaaaaaaa" || parsed.TopicID != "abcdef01" {
		t.Errorf("parsed %+v", parsed)
	}
	for _, name := range []string{"x.parquet", "_manifest.json", "_SUCCESS", "part-00000.parquet", "merged-x-00001.parquet", "merged-aaaaaaaa-00001.parquet.tmp"} {
		if _, ok := ParseFileName(name); ok {
			t.Errorf("%s is taken for ours", name)
		}
	}
	planID, split, ok := stageOf(StagePath(AttemptDir(planA, 12, "u"), "dt=1/x"))
	if !ok || planID != planA || split != 12 {
		t.Errorf("stage of %s, %d, %v", planID, split, ok)
	}
}

// TestPutPlanIsSwept: a process that stands still while it puts a plan, until a sweep
// takes that for what a crash left, puts it again.
func TestPutPlanIsSwept(t *testing.T) {
	mem := vfs.NewMem()
	l := (&source{}).open(t, local.New(mem, "/root"))
	swept := 0
	mem.Inject(func(op vfs.Op, name string) error {
		if op != vfs.OpLink || swept > 0 || !strings.HasPrefix(path.Base(name), sink.PutPrefix) {
			return nil
		}
		swept++
		return mem.Remove(name)
	})
	id, err := l.PutPlan(t.Context(), fakePlan(l.Fold(), span{0, 0, 40}))
	if err != nil || swept != 1 {
		t.Fatalf("swept %d times: %v", swept, err)
	}
	if _, err := l.ReadPlan(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestPutPlan(t *testing.T) {
	src, s := &source{}, memSink()
	l := src.open(t, s)
	p := fakePlan(l.Fold(), span{0, 0, 40})
	p.Schema = &formats.Schema{Fields: []formats.Field{{Name: "x", From: []string{"a", "b.c"}, Type: &formats.Type{
		Kind: formats.List, Elem: &formats.Type{Kind: formats.Decimal, Precision: 38, Scale: 2},
	}}}}
	id, err := l.PutPlan(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.PutPlan(t.Context(), p); err != nil || again != id {
		t.Errorf("again: %s, %v", again, err)
	}
	back, err := l.ReadPlan(t.Context(), id)
	if err != nil || PlanID(back) != id {
		t.Errorf("read back it has id %s, %v", PlanID(back), err)
	}
	open, err := l.OpenPlans(t.Context())
	if err != nil || len(open) != 1 || open[0].ID != id || open[0].State != PlanOpen {
		t.Errorf("open plans %+v, %v", open, err)
	}
	// A revision replaces it.
	q := fakePlan(l.Fold(), span{0, 0, 40})
	q.Replaces, q.Revision = id, 1
	newer, err := l.PutPlan(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if open, err = l.OpenPlans(t.Context()); err != nil || len(open) != 1 || open[0].ID != newer {
		t.Errorf("open plans %+v, %v, want the revision only", open, err)
	}
	other := fakePlan(l.Fold(), span{0, 0, 40})
	other.Job = "other"
	_, err = l.PutPlan(t.Context(), other)
	exits(t, err, ExitConflict, "other")
	for name, damage := range map[string]func([]byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"flipped": func(b []byte) []byte { b[len(b)/3] ^= 4; return b },
		"emptied": func([]byte) []byte { return nil },
	} {
		rewrite(s, PlanPath(id), damage)
		_, err := l.ReadPlan(t.Context(), id)
		exits(t, err, ExitMismatch, PlanPath(id))
		if _, err = l.PutPlan(t.Context(), p); err == nil {
			t.Errorf("%s: put over another content", name)
		}
		exits(t, err, ExitMismatch, PlanPath(id))
		rewrite(s, PlanPath(id), func([]byte) []byte { b, _ := Canonical(p); return append(b, '\n') })
	}
	_, err = l.ReadPlan(t.Context(), "0123456789abcdef")
	exits(t, err, ExitNotFound)
	_, err = l.ReadPlan(t.Context(), "../../etc")
	exits(t, err, ExitNotFound)
}
