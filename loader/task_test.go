package loader

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/consumer"
	"sawlog/formats"
	"sawlog/formats/parquet"
	"sawlog/offsets"
)

// hashes maps final paths to sha256, digest and rows.
func hashes(res *Result) map[string]string {
	out := map[string]string{}
	for i := range res.Files {
		f := &res.Files[i]
		out[f.Path] = fmt.Sprint(f.SHA256, " ", f.Digest, " ", f.Rows, " ", f.Bytes)
	}
	return out
}

// One plan, one sha256 per file, whatever the memory, the fetch size, the cores
// and the way the task works: on two partitions in one split, hours that come
// in any order, a column whose dictionary overflows, and bad records.
func TestTaskIsDeterministic(t *testing.T) {
	r := newRig(t, 2)
	rnd := rand.New(rand.NewPCG(7, 8))
	recs := benchLines(110_000, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), 110_000/3)
	for i := range recs {
		switch at := time.Date(2026, 11, 1, 3+rnd.IntN(6), rnd.IntN(60), 0, 0, time.UTC); {
		case rnd.IntN(500) == 0:
			recs[i].Value = []byte(`{"ts":"soon"}`)
		case rnd.IntN(500) == 0:
			recs[i].Value, recs[i].Key = []byte("\xff\x00{"), []byte("k")
		case rnd.IntN(500) == 0:
			recs[i].Headers = []record.Header{{Key: []byte("h")}, {Key: []byte("h"), Value: []byte("v")}}
			recs[i].Value = []byte(`[1]`)
		case rnd.IntN(20) == 0: // out of order
			recs[i].Value = append([]byte(`{"ts":"`+at.Format(time.RFC3339)+`"`), recs[i].Value[len(`{"ts":"2026-11-01T00:00:00.000Z"`):]...)
		}
	}
	r.src.log("views", 0).put(t, 500, record.Zstd, recs[:90_000]...)
	r.src.log("views", 1).put(t, 77, record.LZ4, recs[90_000:]...)
	r.spec.Schema, r.spec.Merge, r.spec.TargetBytes = benchSchema(), mergeAlways, 1<<40
	p, _ := r.plan(PlanAsk{})
	if len(p.Splits) != 1 || len(p.Splits[0].Ranges) != 2 {
		t.Fatalf("splits %+v", p.Splits)
	}
	p.Writer.PageBytes = 128 << 10 // dictionaries of unique ids overflow early
	least := leastMemory(p.Schema, &p.Writer)
	phases := map[string]bool{}
	var want map[string]string
	for _, v := range []struct {
		memory int64
		fetch  int
		cores  int
		sorts  bool
	}{
		{512 << 20, 4 << 20, 2, false},
		{least, 1, 1, true},
		{least + least/4, 100_000, 2, true},
		{1 << 30, 17, 1, false},
	} {
		clear(phases)
		was := runtime.GOMAXPROCS(v.cores)
		res := r.attempt(p, 0, func(c *taskConfig) {
			c.memory, c.fetch = v.memory, v.fetch
			c.progress = func(p TaskProgress) { phases[p.Phase] = true }
		})
		runtime.GOMAXPROCS(was)
		if phases["write"] != v.sorts {
			t.Errorf("memory %d: phases %v, want sorting %v", v.memory, phases, v.sorts)
		}
		got := hashes(res)
		if want == nil {
			want = got
			checkFallback(t, p, res)
			continue
		}
		if !maps.Equal(got, want) {
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if got[name] != want[name] {
					t.Errorf("memory %d fetch %d: %s is %s, want %s", v.memory, v.fetch, name, got[name], want[name])
				}
			}
		}
	}
	if len(want) != 10 { // 9 hours and the quarantine
		t.Errorf("%d files: %v", len(want), want)
	}
}

// checkFallback makes sure that the input is as hard as it claims: bad records
// are there, and the unique values of a file are more than its dictionary may
// hold, so that it falls back to plain pages half-way.
func checkFallback(t *testing.T, p *Plan, res *Result) {
	t.Helper()
	var bad, largest int64
	for i := range res.Files {
		if f := &res.Files[i]; f.Hour == nil {
			bad = f.Rows
		} else {
			largest = max(largest, f.Rows)
		}
	}
	if bad < 100 || largest*16 < 2*p.Writer.PageBytes {
		t.Errorf("%d bad records, largest file of %d rows: the input is too easy", bad, largest)
	}
}

func (r *rig) jsonPlan(values ...string) *Plan {
	r.t.Helper()
	r.src.log("views", 0).put(r.t, 3, record.None, lines(values...)...)
	p, _ := r.plan(PlanAsk{})
	return p
}

func TestTaskCountsAddUp(t *testing.T) {
	r := newRig(t, 1)
	log := r.src.log("views", 0)
	log.put(t, 3, record.Zstd, lines(view(9, 0, "/a"), view(9, 1, "/b"))...)
	log.put(t, 3, record.None, record.Record{Timestamp: 1000, Key: []byte("k")}, lines("{broken")[0]) // a tombstone, a bad record
	m, err := record.Marker(true, 5, 0, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	log.add(m)
	r.spec.Decode.Tombstones = "skip"
	r.spec.Schema = &formats.Schema{Fields: []formats.Field{{Name: "path", Type: &formats.Type{Kind: formats.String}}}}
	p, _ := r.plan(PlanAsk{})
	res := r.attempt(p, 0)
	in := res.Inputs[0]
	want := Input{
		Cluster: "source", TopicID: in.TopicID, Topic: "views", Range: offsets.Range{End: 5},
		Account: Account{Data: 2, Skipped: 1, Quarantined: 1, Control: 1}, Watermark: time.Date(2026, 11, 29, 9, 1, 0, 0, time.UTC).UnixMicro(),
	}
	if in != want {
		t.Errorf("input %+v\nwant  %+v", in, want)
	}
}

func TestTaskReportsUnknownPaths(t *testing.T) {
	r := newRig(t, 1)
	p := r.jsonPlan(view(9, 0, "/a"), view(10, 0, "/b"), "bad")
	res := r.attempt(p, 0)
	if res.Unknown == nil || len(res.Files) != 0 {
		t.Fatalf("%+v: want a report and no files", res)
	}
	if in := res.Inputs[0]; in.Accounted() != 3 || in.Quarantined != 1 {
		t.Errorf("input %+v", in)
	}
	entries, err := r.d.Sink.List(path.Dir(ResultPath(AttemptDir(PlanID(p), 0, res.Attempt))))
	if err != nil || len(entries) != 1 || entries[0].Name != resultName {
		t.Errorf("attempt folder holds %v, %v: want the result alone", entries, err)
	}
	next, err := revise(p, PlanID(p), []*Result{res}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res = r.attempt(next, 0)
	if res.Unknown != nil || rowsOf(res) != 2 {
		t.Errorf("after the revision: %+v", res)
	}
}

// Quarantine keeps the raw bytes, in offset order, with place and reason.
func TestTaskQuarantine(t *testing.T) {
	r := newRig(t, 1)
	log := r.src.log("views", 0)
	log.put(t, 2, record.None,
		record.Record{Timestamp: -1, Value: []byte("\x00\x00\x00\x00\x01{\"a\":1}")},
		record.Record{Timestamp: 7, Key: []byte("k"), Value: []byte(view(9, 0, "/a"))},
		record.Record{Timestamp: 8, Value: []byte(`{"ts":"21-04:00"}`), Headers: []record.Header{{Key: []byte("h")}}},
		record.Record{Timestamp: 9, Value: []byte("")})
	r.load(PlanAsk{})
	l, err := r.d.Ledger(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	var name string
	for _, v := range l.Fold().All() {
		if v.Hour == nil {
			name = v.Path
		}
	}
	f, err := r.d.Sink.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	pq, err := parquet.Open(f, f.Size())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = pq.Read([]string{"topic", "partition", "offset", "reason"}, 0, -1, func(row [][]byte) error {
		got = append(got, fmt.Sprintf("%s", row))
		return nil
	})
	want := []string{`["views" 0 0 "syntax"]`, `["views" 0 2 "time"]`, `["views" 0 3 "syntax"]`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
}

// A bad record is bad for the same reason both ways.
func TestTaskSortedQuarantinesAlike(t *testing.T) {
	r := newRig(t, 1)
	p := r.jsonPlan(view(9, 0, "/a"), "{", `{"ts":5}`, view(8, 0, "/b"), `{"ts":"2026-11-29T09:00:00Z","path":7}`, view(9, 5, "/c"))
	p.Schema = &formats.Schema{Fields: []formats.Field{
		{Name: "_offset", Type: &formats.Type{Kind: formats.Int64}},
		{Name: "path", Type: &formats.Type{Kind: formats.String}},
	}}
	direct := r.attempt(p, 0)
	c := taskConfig{
		cluster: r.src, sink: r.d.Sink, logger: r.d.Logger, plan: p, planID: PlanID(p), attempt: NewAttempt(),
		memory: 256 << 20, spool: t.TempDir(),
	}
	tk, err := newTask(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := tk.sink.Mkdir(tk.dir); err != nil {
		t.Fatal(err)
	}
	d := newDirect(tk)
	if err := d.makeRoom(); err != nil {
		t.Fatal(err)
	}
	files, err := d.write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := hashes(&Result{Files: files}), hashes(direct); !maps.Equal(got, want) || len(got) != 3 {
		t.Errorf("sorted %v\ndirect %v", got, want)
	}
}

func TestTaskErrors(t *testing.T) {
	r := newRig(t, 1)
	p := r.jsonPlan(view(9, 0, "/a"), view(9, 1, "/b"), view(9, 2, "/c"), view(9, 3, "/d"))
	config := func() taskConfig {
		return taskConfig{
			cluster: r.src, sink: r.d.Sink, logger: r.d.Logger, plan: p, planID: PlanID(p), attempt: NewAttempt(),
			memory: 256 << 20, spool: t.TempDir(),
		}
	}
	run := func(c taskConfig) error {
		_, err := runTask(t.Context(), c)
		return coded(err, ExitUnavailable)
	}
	if err := run(config()); ExitCode(err) != ExitConflict {
		t.Errorf("without a stage: %v", err)
	}
	if err := r.d.Sink.MkdirAll(StageDir(PlanID(p), 0)); err != nil {
		t.Fatal(err)
	}
	c := config()
	c.index = 5
	if err := run(c); ExitCode(err) != ExitConflict {
		t.Errorf("no such split: %v", err)
	}
	c = config()
	c.memory = 1 << 20
	if err := run(c); ExitCode(err) != ExitConflict || !strings.Contains(err.Error(), "memory") {
		t.Errorf("too little memory: %v", err)
	}
	log := r.src.log("views", 0)
	log.start = 3
	if err := run(config()); ExitCode(err) != ExitMismatch {
		t.Errorf("retention has passed the start: %v", err)
	}
	log.start = 0
	r.src.topics[0].id = offsets.TopicID{9}
	if err := run(config()); ExitCode(err) != ExitNotFound {
		t.Errorf("topic made again: %v", err)
	}
	r.src.topics[0].id = p.Topics[0].ID
	r.src.refuse = func(req kmsg.Request) error {
		if _, ok := req.(*kmsg.FetchRequest); ok {
			return fmt.Errorf("%w: no", consumer.ErrAuth)
		}
		return nil
	}
	if err := run(config()); ExitCode(err) != ExitAuth {
		t.Errorf("not authorized: %v", err)
	}
	r.src.refuse = nil
	log.batches[0] = slices.Clone(log.batches[0])
	log.batches[0][record.HeaderSize+3] ^= 1
	if err := run(config()); ExitCode(err) != ExitMismatch || !strings.Contains(err.Error(), "views/0") {
		t.Errorf("corrupt batch: %v", err)
	}
	if left, err := os.ReadDir(c.spool); err != nil || len(left) > 0 {
		t.Errorf("spool holds %v, %v", left, err)
	}
}

func TestCodedKeepsCodes(t *testing.T) {
	if err := coded(fail(ExitPartial, "x"), ExitFailed); ExitCode(err) != ExitPartial {
		t.Error(err)
	}
	if err := coded(errors.New("x"), ExitUnavailable); ExitCode(err) != ExitUnavailable {
		t.Error(err)
	}
	if coded(nil, 1) != nil {
		t.Error("nil became an error")
	}
}
